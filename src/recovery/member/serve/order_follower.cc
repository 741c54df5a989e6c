#include "recovery/member/serve/order_follower.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "comm/transport/seated_transport.h"

namespace evermoe {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

// An update is waited for, not what may never come: a lane that changes waits for the next view.
constexpr absl::Duration kUpdateMax = absl::Milliseconds(500);
// For a verdict that others have, unless who would pass it on has gone.
constexpr absl::Duration kVerdictMax = absl::Milliseconds(200);
constexpr absl::Duration kLookAgain = absl::Milliseconds(5);

View before(View view) { return View(view.value - 1); }

}  // namespace

void OrderFollower::follow() {
  while (const auto order = in_.orders.pop()) {
    std::visit(Overloaded{[&](const StopOrder& stop) { this->receive(stop); },
                          [&](const Plan& plan) {
                            if (plan.view == in_.views.newest_view())
                              open(std::make_shared<const Plan>(plan));
                          },
                          [&](const ReleaseOrder&) { in_.views.end(absl::OkStatus()); },
                          [&](const LeaveOrder& leave) { this->leave(leave); }},
               *order);
  }
  stop_if_due();
  report_if_ready();
}

absl::Duration OrderFollower::pause() const {
  return asked_ || waiting_ ? kLookAgain : absl::InfiniteDuration();
}

// Where the joiner cannot be found nothing is given, and the controller calls it off.
void OrderFollower::leave(const LeaveOrder& order) {
  if (!take_joiner(order)) in_.joiner.end();
  if (!in_.leave.order(order))
    in_.control.send(CannotLeave{order.view, in_.rank, CannotLeave::Why::kTooLate});
  in_.wake_training.raise();
}

bool OrderFollower::take_joiner(const LeaveOrder& order) {
  const PlanPointer plan = in_.views.plan();
  const bool is_of_view =
      plan != nullptr && plan->view == order.view && in_.views.newest_view() == order.view;
  if (order.is_off || !is_of_view) return false;
  joiners_[in_.rank] = order.joiner;
  if (!set_peers().ok()) {
    joiners_.erase(in_.rank);
    return false;
  }
  if (in_.joiner.begin(order.view, order.joiner)) announce(order.joiner);
  if (order.stop_at >= Step(0)) in_.joiner.put_own_first();
  return true;
}

void OrderFollower::announce(const PeerAddress& joiner) {
  const Neighbours neighbours = this->neighbours();
  for (const auto& [role, neighbour] : neighbours)
    in_.sender.send(role, in_.views.plan()->view, MessageKind::kComing, encode(joiner));
  if (!neighbours.empty()) in_.joiner.introduce(neighbours);
}

// In the open view.
Neighbours OrderFollower::neighbours() const {
  const PlanPointer plan = in_.views.plan();
  Neighbours neighbours;
  for (int32_t i = 0; i < std::ssize(plan->table); ++i) {
    Neighbour neighbour;
    neighbour.address = plan->table[static_cast<size_t>(i)];
    neighbour.messages = in_.transport.is_connected(Rank(i), Traffic::kMessages);
    neighbour.service_messages = in_.transport.is_connected(Rank(i), Traffic::kServiceMessages);
    if (Rank(i) == in_.rank || !(neighbour.messages || neighbour.service_messages)) continue;
    if (const auto joiner = joiners_.find(Rank(i)); joiner != joiners_.end())
      neighbour.joiner = joiner->second;
    neighbours[Rank(i)] = std::move(neighbour);
  }
  return neighbours;
}

absl::Status OrderFollower::expect(Rank role, std::span<const std::byte> joiner) {
  ASSIGN_OR_RETURN(const PeerAddress address, decode_peer_address(joiner));
  const PlanPointer plan = in_.views.plan();
  if (role == in_.rank || role.value >= std::ssize(plan->table) || address.since <= plan->view)
    return Corrupt("a joiner that cannot be one");
  joiners_[role] = address;
  if (!set_peers().ok())
    joiners_.erase(role);  // who cannot be reached so is met in the next view, or lost there
  else if (joiners_.contains(in_.rank))
    in_.joiner.introduce(neighbours());
  return absl::OkStatus();
}

// By the newest plan.
absl::Status OrderFollower::set_peers() const {
  return in_.transport.set_peers(
      with_others(in_.views.plan()->table, in_.transport.size(), joiners_));
}

void OrderFollower::receive(const StopOrder& order) {
  if (waiting_ && order.view < waiting_->order.view) return;
  waiting_.reset();
  if (order.handed_over < Step(0)) return stop(order);
  waiting_ = Waiting{order, in_.clock.now() + kVerdictMax};
}

void OrderFollower::stop_if_due() {
  if (!waiting_) return;
  const bool is_there = in_.memory.records.newest() >= verdict_commit(waiting_->order.handed_over);
  if (is_there || in_.clock.now() >= waiting_->followed_by)
    stop(std::exchange(waiting_, std::nullopt)->order);
}

void OrderFollower::stop(const StopOrder& order) {
  if (!in_.views.stop(order.view)) return;
  in_.joiner.end();
  incident_ = order.incident;
  in_.transport.revoke(kWorldGroups, before(order.view),
                       Cancelled(absl::StrCat("view ", order.view.value, " begins")));
  in_.wake_training.raise();
  fault_point("recovery/stopped");
  asked_ = Asked{order.view, in_.clock.now() + kUpdateMax};
}

void OrderFollower::report_if_ready() {
  if (!asked_ || (in_.views.is_updating() && in_.clock.now() < asked_->answered_by)) return;
  in_.control.send(report(asked_->view));
  asked_.reset();
}

Report OrderFollower::report(View view) const {
  const MemberViews::Standing standing = in_.views.standing();
  Report report;
  report.view = view;
  report.rank = in_.rank;
  report.stage_epoch = standing.stage_epoch;
  report.is_broken = standing.is_broken;
  report.has_state = standing.has_state;
  report.held_state = standing.held_state;
  report.logged_since = standing.logged_since;
  report.catches_up_to = standing.catches_up_to;
  report.awaits_state = standing.awaits_state;
  report.experts_moved = standing.experts_moved;
  report.base = standing.base;
  report.newest = in_.memory.records.newest();
  if (const auto newest = in_.memory.records.find(report.newest)) {
    const auto record = decode_record(*newest);
    if (record.ok()) {
      report.state = record->state;
      report.complete_window = record->complete_window;
    }
  }
  report.held = in_.memory.store.held();
  report.whole_states = in_.memory.store.whole_states();
  if (const PlanPointer plan = in_.views.plan()) {
    report.plan_view = plan->view;
    report.membership = plan->membership;
  }
  return report;
}

bool OrderFollower::begins_by(const Plan& plan) const {
  return plan.restart_all || std::ranges::count(plan.rolled_back, in_.stage) > 0 ||
         std::ranges::count(plan.rejoining, in_.rank) > 0;
}

View OrderFollower::epoch_of(const Plan& plan) const {
  const auto stage = static_cast<size_t>(in_.stage);
  return stage < plan.stage_epochs.size() ? plan.stage_epochs[stage] : plan.view;
}

void OrderFollower::open(PlanPointer plan) {
  in_.troubles.on_opening(plan->view);
  joiners_.clear();
  if (const absl::Status status =
          in_.transport.set_peers(with_others(plan->table, in_.transport.size(), joiners_));
      !status.ok())
    return in_.troubles.report(plan->view, status);
  fault_point("recovery/opening");
  const bool restarts = begins_by(*plan);
  if (restarts) {
    // Who comes to a stage that goes on hears what that says in its epoch.
    in_.transport.revoke(
        kStageGroups, before(epoch_of(*plan)),
        Cancelled(absl::StrCat("the stage begins anew in view ", plan->view.value)));
    in_.copies.suspend();
  }
  if (plan->restart_all) {
    // Before anything of the new run can come.
    in_.copies.clear();
    in_.memory.clear_boundaries_and_snapshots();
  }
  in_.exchange.on_view();
  if (in_.keeps_copies) in_.peers.set_holders(*plan);
  in_.views.open(plan, restarts, epoch_of(*plan));
  in_.control.send(Milestone{plan->view, in_.rank, Milestone::Kind::kOpened, 0, {}});
  in_.on_opened();
}

}  // namespace evermoe
