#include "cli/operators/wanted_places.h"

#include <toml++/toml.h>
#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

absl::StatusOr<toml::table> parsed(const std::string& text, const std::string& origin) {
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    return InvalidInput(absl::StrCat(origin, ":", error.source().begin.line, ": ",
                                     std::string(error.description())));
  }
}

absl::StatusOr<Node> node_of(const toml::node& value, const std::string& where) {
  const auto number = value.is_integer() ? value.value<int64_t>() : std::nullopt;
  if (!number || *number < 0 || *number > std::numeric_limits<int32_t>::max()) {
    return InvalidInput(absl::StrCat(where, ": allowed: the number of a node, as in \"1.0\" = 2"));
  }
  return Node(static_cast<int32_t>(*number));
}

}  // namespace

absl::StatusOr<MoveWanted> wanted_places(const std::string& text, const std::string& origin,
                                         const JobStatus& status) {
  ASSIGN_OR_RETURN(const toml::table table, parsed(text, origin));
  std::map<Rank, Node> moves;
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    const std::string where = absl::StrCat(origin, ":", value.source().begin.line, ": ", name);
    const auto role = std::ranges::find(status.roles, name, &RoleStatus::name);
    if (role == status.roles.end())
      return InvalidInput(absl::StrCat(where, " is no role of this job; \"0.0\" is one"));
    ASSIGN_OR_RETURN(const Node node, node_of(value, where));
    if (role->node != node) moves[role->rank] = node;
  }
  MoveWanted wish;
  for (const auto& [rank, node] : moves) {
    wish.roles.push_back(rank);
    wish.to.push_back(node);
  }
  return wish;
}

}  // namespace evermoe
