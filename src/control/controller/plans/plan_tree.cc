#include "control/controller/plans/plan_tree.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "base/check.h"

namespace evermoe {

bool is_inside_machine(const std::string& address) {
  return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "[::1]");
}

std::vector<PlanServer> plan_tree(const std::vector<std::string>& addresses, size_t branches) {
  CHECK(branches > 0);
  const bool is_one_machine =
      std::all_of(addresses.begin(), addresses.end(),
                  [](const std::string& a) { return a.empty() || is_inside_machine(a); });
  std::vector<PlanServer> servers(addresses.size());
  std::vector<size_t> members;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].empty() || (is_inside_machine(addresses[i]) && !is_one_machine)) continue;
    const size_t place = members.size();
    members.push_back(i);
    if (place < branches) continue;
    const size_t server = members[place / branches - 1];
    servers[i] = {server, servers[server].depth + 1};
  }
  return servers;
}

}  // namespace evermoe
