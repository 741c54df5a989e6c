#include "cli/commands/host_list_fuzz_entry.h"

#include <string>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "cli/commands/host_list.h"

namespace evermoe {

void fuzz_host_list(const uint8_t* data, size_t size) {
  const auto hosts = expand_host_list(std::string(reinterpret_cast<const char*>(data), size));
  if (!hosts.ok()) return;
  CHECK(!hosts->empty() && hosts->size() <= kHostsMax) << hosts->size();
  const std::string list = absl::StrJoin(*hosts, ",");
  CHECK(list.find_first_of("[]") == std::string::npos) << list;
  const auto again = expand_host_list(list);
  CHECK(list.size() > kHostListBytesMax || (again.ok() && *again == *hosts)) << list;
}

}  // namespace evermoe
