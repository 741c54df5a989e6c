#include "control/controller/status/arithmetic_check.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "config/identity.h"

namespace evermoe {

void ArithmeticCheck::on_node(const AgentJoined& event) {
  if (!event.arithmetic.empty()) of_nodes_[event.node] = event.arithmetic;
}

ArithmeticDecision ArithmeticCheck::decide(const MemberJoined& event, const NodeTable& nodes,
                                           Commit newest, int nodes_needed) {
  if (!first_joined_) first_joined_ = event;
  if (event.arithmetic == first_joined_->arithmetic) return {};
  const int needed = newest > Commit(-1) ? 1 : nodes_needed;
  const bool is_enough_left = nodes.up_besides(event.node) >= needed;
  return {.kind = is_enough_left ? ArithmeticDecision::Kind::kLeaveNodeOut
                                 : ArithmeticDecision::Kind::kEnd,
          .difference = difference(event.arithmetic)};
}

std::vector<ArithmeticCheck::UnequalNode> ArithmeticCheck::take_unequal_nodes() {
  std::vector<UnequalNode> unequal;
  if (!first_joined_) return unequal;
  for (const auto& [node, arithmetic] : std::exchange(of_nodes_, {})) {
    if (arithmetic != first_joined_->arithmetic) unequal.push_back({node, difference(arithmetic)});
  }
  return unequal;
}

std::string ArithmeticCheck::difference(const std::string& arithmetic) const {
  return absl::StrCat(
      "would compute other bits than worker ", topology_.name_of(first_joined_->rank), " on node ",
      first_joined_->node.value, ": ", identity_difference(first_joined_->arithmetic, arithmetic));
}

}  // namespace evermoe
