#include "recovery/member/restore/restorer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "recovery/member/restore/slot_restore.h"
#include "recovery/plan/make_plan.h"
#include "recovery/protocol/handed_position.h"

namespace evermoe {

Restorer::Restorer(Dependencies dependencies)
    : in_(std::move(dependencies)),
      active_(in_.trainer.operators().size(), true),
      before_(in_.trainer, in_.bytes_at_once, in_.witnesses) {}

void Restorer::set_has_state(bool has_state) {
  has_state_ = has_state;
  in_.views.set_has_state(has_state, in_.trainer.step(), in_.trainer.experts_moved());
}

void Restorer::begin_run() {
  restoring_.reset();
  before_.forget();
  in_.gradients.forget();
  set_has_state(false);
  ahead_.reset();
  active_.assign(active_.size(), true);
  inherits_ = false;  // what it had is gone
  in_.views.set_logged_since(Step(-1));
}

// What was on other lanes at the window has to come to this state through the change again.
bool Restorer::keeps_state(const Plan& plan) const {
  if (!has_state_ || plan.renews) return has_state_;
  return in_.keeps_gradients && plan.window >= Step(0) && in_.trainer.step() >= plan.window &&
         !has_moved_since(plan, in_.trainer.experts_moved());
}

absl::Status Restorer::begin(const Plan& plan) {
  const Step oldest = plan.window >= Step(0) ? plan.window : plan.base;
  has_kept_state_ = keeps_state(plan);
  const bool goes_back = !in_.keeps_gradients && !plan.renews;
  // A state that was itself being recomputed proves nothing; then what was noted before stays.
  if (has_state_ && goes_back && is_on_planned_lanes(plan)) before_.note();
  if (!has_kept_state_) set_has_state(false);
  restoring_.reset();
  in_.gradients.forget();
  in_.copies.abandon();
  in_.trainer.join_stage(in_.views.standing().stage_epoch);
  RETURN_IF_ERROR(in_.commits.fetch(verdict_commit(oldest), plan.newest));
  if (!in_.commits.is_known(plan.newest))
    return Cancelled(absl::StrCat("commit ", plan.newest.value, " was lost with all that had it"));
  const bool rejoins = std::ranges::count(plan.rejoining, in_.rank) > 0;
  const Step from = rejoins || plan.renews ? plan.state : oldest;
  ASSIGN_OR_RETURN(const Record record, in_.commits.record_of(verdict_commit(from)));
  in_.window.follow(record.rule);
  in_.trainer.take_run_origin(record.run);
  // What is run again is sent again; a role that rested has sent nothing.
  if (goes_back || !has_kept_state_)
    in_.views.set_logged_since(rejoins ? Step(-1) : goes_back ? from : plan.state);
  Milestone milestone{plan.view, in_.rank, Milestone::Kind::kRestored, 0, {}, from};
  RETURN_IF_ERROR(restore(plan, from, record, milestone));
  in_.views.set_taken();
  fault_point("recovery/restored");
  in_.control.send(std::move(milestone));
  return absl::OkStatus();
}

bool Restorer::is_on_planned_lanes(const Plan& plan) const {
  const Step step = in_.trainer.step();
  const bool is_about_to_move = in_.trainer.may_move_experts(step) && in_.trainer.moves_experts();
  return !is_about_to_move &&
         in_.trainer.membership().resting() == resting_at(plan.membership, step);
}

void Restorer::rest(Step from, const Record& record, Milestone& milestone) {
  if (!has_kept_state_) in_.trainer.rest_at(from, record.combined);
  active_.assign(active_.size(), true);
  milestone.step = in_.trainer.step();
  milestone.sources.push_back("none: it rests");
}

absl::Status Restorer::restore(const Plan& plan, Step from, const Record& record,
                               Milestone& milestone) {
  if (!has_kept_state_) {
    const Membership membership(in_.topology, resting_at(plan.membership, from));
    if (!(membership == in_.trainer.membership())) ahead_.reset();
    in_.trainer.take_membership(membership);
    in_.window.on_moved();
  }
  const std::optional<Step> ahead = std::exchange(ahead_, std::nullopt);
  if (in_.trainer.membership().rests(in_.rank)) {
    rest(from, record, milestone);
    return absl::OkStatus();
  }
  if (plan.renews) return renew(plan, record, ahead, milestone);
  if (plan.window < Step(0)) {
    inherit([](Step) { return false; });
    RETURN_IF_ERROR(restore_base(plan));
    in_.window.begin_run(record.rule);
    active_.assign(active_.size(), true);
    milestone.sources.push_back(absl::StrCat("the state at step ", plan.base.value));
    return absl::OkStatus();
  }
  if (in_.keeps_gradients) {
    inherit([&](Step window) { return window >= plan.window; });
    const bool goes_on = !has_state_ && ahead && leads_on(*ahead, plan);
    ASSIGN_OR_RETURN(milestone.sources, in_.gradients.begin(plan, has_state_ || goes_on));
    if (goes_on) milestone.sources.push_back("what the former process has given this one");
    milestone.step = in_.trainer.step();
    return absl::OkStatus();
  }
  inherit([&](Step window) { return window == plan.window; });
  std::vector<SlotTime> times;
  for (int slot = 0; slot < record.rule.slots; ++slot) times.push_back({plan.window, slot});
  ASSIGN_OR_RETURN(WindowFetch::Fetched fetched, in_.fetch.fetch(times));
  if (fetched.asked) in_.copies.adopt(times, *fetched.asked);
  milestone.sources = std::move(fetched.sources);
  active_.assign(active_.size(), false);
  restoring_ = Restoring{plan.window, 0};
  return absl::OkStatus();
}

// Whether those who have kept their states go on from such a one, too.
bool Restorer::leads_on(Step ahead, const Plan& plan) const {
  return plan.window <= ahead && ahead <= plan.state &&
         !has_moved_since(plan, in_.trainer.experts_moved());
}

absl::Status Restorer::renew(const Plan& plan, const Record& record, std::optional<Step> ahead,
                             Milestone& milestone) {
  active_.assign(active_.size(), true);
  in_.gradients.begin_at(plan.state);
  if (has_kept_state_) {
    CHECK(in_.trainer.step() == plan.state)
        << "at " << in_.trainer.step() << ", not " << plan.state;
    return absl::OkStatus();
  }
  if (const auto handed = in_.memory.store.handed_state(in_.rank, plan.state)) {
    milestone.sources.push_back("what the former process has given this one");
    RETURN_IF_ERROR(restore_handed(*handed, ahead == handed->base));
    CHECK(in_.trainer.step() == plan.state)
        << "handed over at " << in_.trainer.step() << ", not " << plan.state;
  } else {
    const SlotTime whole{plan.state, 0};
    ASSIGN_OR_RETURN(WindowFetch::Fetched fetched, in_.fetch.fetch({whole}));
    RETURN_IF_ERROR(restore_slot(in_.memory.store, in_.rank, whole, in_.trainer,
                                 [this](std::span<const std::byte> position) {
                                   return in_.window.take_position(position);
                                 }));
    if (fetched.asked) in_.copies.adopt({whole}, *fetched.asked);
    milestone.sources = std::move(fetched.sources);
  }
  // The windows that the job goes on with. Who holds its copies has freed older ones, and would be
  // sent them again; later ones may have been cut off.
  inherit([&](Step window) {
    const bool is_whole = window >= record.rule.base && record.rule.is_first_of_window(window);
    return window == record.complete_window || (window > record.complete_window && is_whole);
  });
  return absl::OkStatus();
}

// The record of a step lies with the position after it.
absl::Status Restorer::restore_handed(const HandedState& handed, bool has_whole) {
  HandedPosition at;
  const OnPosition take = take_handed(at);
  const auto restore = [&](int slot) {
    return restore_slot(in_.memory.store, in_.rank, {handed.base, slot}, in_.trainer, take);
  };
  if (!has_whole) RETURN_IF_ERROR(restore(kWholeState));
  for (int step = 0; step < handed.steps; ++step) {
    RETURN_IF_ERROR(restore(gradients_after_whole(step)));
    const bool is_last = step + 1 == handed.steps;
    RETURN_IF_ERROR(note_record({handed.base, is_last ? stopped_after_whole(handed.steps)
                                                      : gradients_after_whole(step + 1)},
                                at));
    RETURN_IF_ERROR(in_.trainer.apply_alone(at.record.combined,
                                            [this](int op) { return in_.copies.wait_read(op); }));
  }
  return restore(stopped_after_whole(handed.steps));
}

OnPosition Restorer::take_handed(HandedPosition& at) {
  return [this, &at](std::span<const std::byte> position) -> absl::Status {
    ASSIGN_OR_RETURN(at, decode_handed_position(position));
    return in_.window.take_position(at.position);
  };
}

absl::Status Restorer::restore_ahead(const std::vector<Chunk>& whole) {
  CHECK(!has_state_ && !whole.empty());
  ahead_.reset();
  HandedPosition at;
  const OnPosition take = take_handed(at);
  const auto take_if_they_fit = [&](std::span<const std::byte> position) -> absl::Status {
    RETURN_IF_ERROR(take(position));
    const bool do_fit = std::ranges::all_of(
        whole, [this](const Chunk& chunk) { return this->fits(chunk.header()); });
    return do_fit ? absl::OkStatus() : InvalidInput("a state that is laid out for other lanes");
  };
  RETURN_IF_ERROR(restore_chunks(whole, in_.trainer, take_if_they_fit));
  ahead_ = whole.front().header().window;
  return absl::OkStatus();
}

bool Restorer::fits(const ChunkHeader& header) const {
  if (header.operator_index < 0) return true;
  const std::vector<StageOperator>& operators = in_.trainer.operators();
  if (header.operator_index >= std::ssize(operators)) return false;
  const OperatorBytes& bytes = operators[static_cast<size_t>(header.operator_index)].bytes;
  const int64_t size = header.kind == SnapshotKind::kFull ? bytes.full : bytes.compute;
  return header.offset >= 0 && header.offset + header.size <= size;
}

// What goes before this slot, without a step to it.
absl::Status Restorer::note_record(SlotTime time, HandedPosition& at) const {
  for (const Chunk& chunk : in_.memory.store.slot(in_.rank, time)) {
    if (chunk.header().operator_index >= 0) continue;
    RETURN_IF_ERROR(chunk.verify());
    ASSIGN_OR_RETURN(at, decode_handed_position(chunk.body()));
  }
  return absl::OkStatus();
}

// Copies of others stay, whatever they are of: what a plan does not ask for is freed with the rest.
void Restorer::inherit(const std::function<bool(Step window)>& is_kept) {
  if (!std::exchange(inherits_, false)) return;
  SnapshotStore& store = in_.memory.store;
  store.drop_handed(in_.rank);
  for (const Step window : store.windows(in_.rank)) {
    if (!is_kept(window)) store.drop_window(in_.rank, window);
  }
  in_.copies.adopt_held(store.held_slots(in_.rank));
}

// To die of a checkpoint that is damaged or gone would change nothing: there may be a newer one.
absl::Status Restorer::restore_base(const Plan& plan) {
  const absl::Status restored = in_.trainer.restore_base(plan.base);
  if (!absl::IsNotFound(restored) && !absl::IsDataLoss(restored)) return restored;
  const absl::Status trouble =
      annotate(restored, absl::StrCat("the state at step ", plan.base.value));
  // Views may begin and end for other reasons before one sends this rank elsewhere.
  for (View view = plan.view;;) {
    in_.troubles.report_copies_unusable(view, trouble);
    ASSIGN_OR_RETURN(const PlanPointer next, in_.views.pass(view));
    view = next->view;
  }
}

absl::Status Restorer::restore_position(std::span<const std::byte> position, SlotTime time) {
  if (time.slot == 0) {
    RETURN_IF_ERROR(in_.window.take_position(position));
    if (in_.window.ordering().is_counted()) in_.counts.add_one(&MemberWork::reordered_restores);
  }
  return annotate(in_.window.compare_position(position),
                  absl::StrCat("window ", time.window.value, ", slot ", time.slot));
}

absl::Status Restorer::restore_next_slot() {
  const SlotTime time{restoring_->window, restoring_->next_slot};
  CHECK(time.slot == 0 || in_.trainer.step() == in_.window.schedule().state_of(time))
      << "slot " << time.slot << " at " << in_.trainer.step();
  RETURN_IF_ERROR(restore_slot(
      in_.memory.store, in_.rank, time, in_.trainer,
      [&](std::span<const std::byte> position) { return restore_position(position, time); }));
  const CaptureSchedule& schedule = in_.window.schedule();
  std::vector<int> restored;
  for (int i = 0; i < static_cast<int>(active_.size()); ++i) {
    if (schedule.kind_in(i, time.slot)) restored.push_back(i);
    active_[static_cast<size_t>(i)] = schedule.is_active_after(i, time.slot);
  }
  RETURN_IF_ERROR(in_.trainer.complete_restore(restored));
  if (++restoring_->next_slot == schedule.slots()) restoring_.reset();
  return absl::OkStatus();
}

void Restorer::corrupt_state() {
  const std::vector<StageOperator>& operators = in_.trainer.operators();
  for (int i = 0; i < static_cast<int>(operators.size()); ++i) {
    const int64_t size = operators[static_cast<size_t>(i)].bytes.full;
    if (!active_[static_cast<size_t>(i)] || size == 0) continue;
    if (!in_.copies.wait_read(i).ok()) return;
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(size, in_.bytes_at_once)));
    in_.trainer.capture(i, SnapshotKind::kFull, 0, bytes);
    bytes[0] ^= std::byte{1};
    return in_.trainer.restore(i, SnapshotKind::kFull, 0, bytes);
  }
}

absl::Status Restorer::on_dense_state() {
  set_has_state(true);
  const absl::StatusOr<bool> is_verified = before_.compare();
  RETURN_IF_ERROR(is_verified.status());
  if (!*is_verified) return absl::OkStatus();
  fault_point("catch_up/verified");
  in_.control.send(Milestone{in_.views.newest_view(), in_.rank, Milestone::Kind::kVerified, 0, {}});
  return absl::OkStatus();
}

}  // namespace evermoe
