// For tests: the controller's side of a member, what it was told and the plans that it makes.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "recovery/member/view_state.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

// What a member told its controller.
class ToldController : public ControlLink {
 public:
  void send(MemberMessage message) override {
    messages.push_back(message);
    if (on_message) on_message(message);
  }
  template <typename Message>
  std::vector<Message> all() const {
    std::vector<Message> found;
    for (const MemberMessage& message : messages) {
      if (const auto* const one = std::get_if<Message>(&message)) found.push_back(*one);
    }
    return found;
  }
  std::vector<MemberMessage> messages;
  std::function<void(const MemberMessage&)> on_message;
};

// A plan in words: PlanOf(2).up_to(verdict_commit(Step(6)), 1).back_to_window(3, {0}).from(0, {1}).
class PlanOf {
 public:
  explicit PlanOf(uint32_t view, int ranks = 1) : ranks_(static_cast<size_t>(ranks)) {
    plan_.view = View(view);
    plan_.base = Step(0);
    plan_.holders.resize(ranks_);
  }
  PlanOf& restarting_all() { return plan_.restart_all = true, *this; }
  PlanOf& up_to(Commit newest, int record_source = 0) {
    plan_.newest = newest;
    plan_.state = step_of(newest);
    plan_.record_source = Rank(record_source);
    return *this;
  }
  PlanOf& back_to_base(std::vector<int> stages) {
    return plan_.rolled_back = std::move(stages), *this;
  }
  // Nobody goes back.
  PlanOf& renewing(std::vector<int> stages) {
    return plan_.renews = true, back_to_base(std::move(stages));
  }
  PlanOf& back_to_window(int window, std::vector<int> stages) {
    return plan_.window = Step(window), back_to_base(std::move(stages));
  }
  PlanOf& from(int rank, const std::vector<int>& sources) {
    plan_.sources.resize(ranks_);
    for (const int source : sources)
      plan_.sources[static_cast<size_t>(rank)].push_back(Rank(source));
    return *this;
  }
  PlanOf& held_by(int rank, int holder) {
    return plan_.holders[static_cast<size_t>(rank)] = {Rank(holder)}, *this;
  }
  PlanOf& at(std::vector<PeerAddress> table) { return plan_.table = std::move(table), *this; }
  const Plan& plan() const { return plan_; }
  operator PlanPointer() const { return std::make_shared<const Plan>(plan_); }

 private:
  const size_t ranks_;
  Plan plan_;
};

}  // namespace evermoe
