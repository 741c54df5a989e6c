#include "cli/operators/wanted_places.h"

#include <limits>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "toml/toml_text.h"

namespace evermoe {
namespace {

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
  ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, origin));
  std::map<std::string_view, const RoleStatus*> roles;
  for (const RoleStatus& role : status.roles) roles[role.name] = &role;
  std::map<Rank, Node> moves;
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    const std::string where = absl::StrCat(origin, ":", value.source().begin.line, ": ", name);
    const auto role = roles.find(name);
    if (role == roles.end())
      return InvalidInput(absl::StrCat(where, " is no role of this job; \"0.0\" is one"));
    ASSIGN_OR_RETURN(const Node node, node_of(value, where));
    if (role->second->node != node) moves[role->second->rank] = node;
  }
  MoveWanted wish;
  for (const auto& [rank, node] : moves) {
    wish.roles.push_back(rank);
    wish.to.push_back(node);
  }
  return wish;
}

}  // namespace evermoe
