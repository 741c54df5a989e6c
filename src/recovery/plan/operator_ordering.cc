#include "recovery/plan/operator_ordering.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

int experts_among(const std::vector<StageOperator>& operators) {
  int experts = 0;
  for (const StageOperator& op : operators) experts = std::max(experts, op.expert + 1);
  return experts;
}

}  // namespace

OperatorOrdering::OperatorOrdering(std::vector<StageOperator> operators, OrderingOptions options)
    : operators_(std::move(operators)),
      options_(options),
      experts_(experts_among(operators_)),
      counted_(std::max(1, experts_), options.decay),
      ordered_by_(counted_) {}

void OperatorOrdering::set_operators(std::vector<StageOperator> operators) {
  CHECK(operators.size() == operators_.size()) << operators.size() << " operators";
  operators_ = std::move(operators);
}

void OperatorOrdering::clear() {
  counted_ = ordered_by_ = Popularity(std::max(1, experts_), options_.decay);
}

void OperatorOrdering::add_step(const ExpertLoads& loads) {
  if (experts_ == 0 || loads.tokens.empty()) return;
  counted_.add_step(loads.tokens, loads.probability);
}

std::optional<std::string> OperatorOrdering::begin_window() {
  if (counted_.steps() == 0) return std::nullopt;
  if (ordered_by_.steps() == 0) {
    ordered_by_ = counted_;
    return "the first that the gates' choices decide";
  }
  const ReorderDecision decision =
      should_reorder(measure(ordered_by_), measure(counted_), options_.reorder);
  if (!decision.reorder) return std::nullopt;
  ordered_by_ = counted_;
  return decision.reason;
}

std::vector<double> OperatorOrdering::measure(const Popularity& popularity) const {
  switch (options_.by) {
    case OrderBy::kSoft: return popularity.soft();
    case OrderBy::kDecayed: return popularity.decayed();
    case OrderBy::kCapacity: {
      std::vector<double> lanes(static_cast<size_t>(std::max(1, experts_)), 1);
      for (const StageOperator& op : operators_) {
        if (op.expert >= 0) lanes[static_cast<size_t>(op.expert)] = op.lanes;
      }
      return capacity_normalized(popularity.hard(), lanes);
    }
    default: return popularity.hard();
  }
}

double OperatorOrdering::tokens_of(const StageOperator& op) const {
  if (op.expert < 0 || ordered_by_.steps() == 0) return op.tokens;
  return static_cast<double>(ordered_by_.tokens()[static_cast<size_t>(op.expert)]) /
         static_cast<double>(ordered_by_.steps());
}

std::vector<OperatorProfile> OperatorOrdering::profiles(double step_seconds,
                                                        OperatorBytes StageOperator::*bytes) const {
  std::vector<OperatorProfile> profiles;
  double work = 0;
  for (const StageOperator& op : operators_) {
    const auto size = static_cast<double>((op.*bytes).full);
    const double tokens = tokens_of(op);
    // Forward and the gradients of inputs and weights are one matrix product each.
    profiles.push_back({.expert = op.expert,
                        .cost = {(op.*bytes).full, (op.*bytes).compute},
                        .forward_seconds = 2 * tokens * size,
                        .gradient_seconds = (tokens + op.update_tokens) * size});
    work += profiles.back().forward_seconds + profiles.back().gradient_seconds;
  }
  if (work == 0) return profiles;
  for (OperatorProfile& profile : profiles) {
    profile.forward_seconds *= step_seconds / work;
    profile.gradient_seconds *= step_seconds / work;
  }
  return profiles;
}

OrderRule OperatorOrdering::rule() const {
  switch (options_.by) {
    case OrderBy::kExpectedCost: return OrderRule::kSavesMost;
    case OrderBy::kRatio: return OrderRule::kRatio;
    default: return OrderRule::kPopularity;
  }
}

std::vector<double> OperatorOrdering::popularity() const {
  return ordered_by_.steps() == 0 ? std::vector<double>() : measure(ordered_by_);
}

StageWindow OperatorOrdering::window(int slots) const {
  return stage_window(profiles(1, &StageOperator::whole), popularity(), rule(), slots);
}

std::vector<int> OperatorOrdering::slots_of_operators(int slots) const {
  const StageWindow window = this->window(slots);
  std::vector<int> slot_of(operators_.size(), 0);
  for (int slot = 0; slot < std::ssize(window.slots); ++slot) {
    const Slot range = window.slots[static_cast<size_t>(slot)];
    for (int at = range.begin; at < range.end; ++at) {
      slot_of[static_cast<size_t>(window.order[static_cast<size_t>(at)])] = slot;
    }
  }
  return slot_of;
}

RecordBytes OperatorOrdering::state() const {
  std::vector<double> numbers = counted_.state();
  const std::vector<double> ordered_by = ordered_by_.state();
  numbers.insert(numbers.end(), ordered_by.begin(), ordered_by.end());
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

absl::Status OperatorOrdering::set_state(std::span<const std::byte> state) {
  const size_t size = counted_.state_size();
  std::vector<double> numbers(2 * size);
  if (state.size() != numbers.size() * sizeof(double))
    return Corrupt("not the capture order of these operators");
  std::memcpy(numbers.data(), state.data(), state.size());
  counted_.set_state(std::span(numbers).first(size));
  ordered_by_.set_state(std::span(numbers).subspan(size));
  return absl::OkStatus();
}

}  // namespace evermoe
