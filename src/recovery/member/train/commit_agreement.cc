#include "recovery/member/train/commit_agreement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "recovery/protocol/repeats.h"

namespace evermoe {
namespace {

std::vector<Rank> all_ranks(int size) {
  std::vector<Rank> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(Rank(r));
  return ranks;
}

// The votes travel as the last minima.
void append(const WindowVote& vote, Findings& findings) {
  findings.minima.insert(findings.minima.end(),
                         {vote.complete_window.value, -vote.wanted_slots, vote.slots_max});
}

// Takes them off again: the oldest window, the most slots that anybody wants, the fewest that fit.
WindowVote take_vote(Findings& findings) {
  const auto at = findings.minima.end() - 3;
  const WindowVote vote{Step(at[0]), static_cast<int>(-at[1]), static_cast<int>(at[2])};
  findings.minima.erase(at, findings.minima.end());
  return vote;
}

}  // namespace

CommitAgreement::CommitAgreement(Dependencies dependencies)
    : in_(std::move(dependencies)),
      world_(in_.transport, all_ranks(in_.world_size), {View(0), kVerdictGroup, in_.deadline}) {}

absl::StatusOr<Record> CommitAgreement::agree(Commit commit, Kind kind, const Findings& own) {
  View after;
  while (true) {
    if (const auto known = in_.records.find(commit)) return decode_record(*known);
    ASSIGN_OR_RETURN(const PlanPointer plan, in_.views.pass(after));
    if (plan->newest >= commit) {
      RETURN_IF_ERROR(fetch(commit, plan->newest));
      // Nobody goes back further than the records that are kept.
      CHECK(in_.records.newest() < plan->newest || in_.records.find(commit))
          << "no record of commit " << commit;
      continue;
    }
    // Also in a view that has opened since the step: its holders may be new.
    if (kind == Kind::kStep) RETURN_IF_ERROR(in_.settle());
    ASSIGN_OR_RETURN(const Record before, record_of(in_.records.newest()));
    const bool cuts_window =
        kind == Kind::kStep &&
        (changes_at(plan->membership, step_of(commit)) || in_.may_move_experts(step_of(commit)));
    const bool ends_window =
        kind == Kind::kStep && (cuts_window || before.rule.is_first_of_window(step_of(commit)));
    Findings findings = own;
    append(in_.vote(ends_window), findings);
    const absl::Status status = reduce(plan->view, findings);
    after = plan->view;
    if (!status.ok()) {
      in_.troubles.report(plan->view, annotate(status, absl::StrCat("commit ", commit.value)));
      continue;
    }
    fault_point("commit/reduced");
    const WindowVote votes = take_vote(findings);
    Record record;
    record.state = kind == Kind::kStep ? step_of(commit) : before.state;
    record.complete_window = std::max(before.complete_window, votes.complete_window);
    const int wanted_slots = std::min(votes.wanted_slots, votes.slots_max);
    record.rule = cuts_window   ? rule_after_change(before.rule, step_of(commit), wanted_slots)
                  : ends_window ? next_rule(before.rule, step_of(commit), wanted_slots)
                                : before.rule;
    record.combined = std::move(findings);
    record.run = before.run;
    absl::Status kept;
    if (in_.views.accept(plan->view, /*updates=*/kind == Kind::kStep,
                         [&] { kept = in_.records.put(commit, encode(record)); })) {
      RETURN_IF_ERROR(kept);
      in_.on_agreed(plan->view, commit, record);
      return record;
    }
  }
}

absl::Status CommitAgreement::reduce(View view, Findings& findings) {
  world_in(view);
  RETURN_IF_ERROR(world_.all_reduce<double>(findings.sums, ReduceOp::kSum));
  return world_.all_reduce<int64_t>(findings.minima, ReduceOp::kMin);
}

Communicator& CommitAgreement::world_in(View view) {
  if (world_.view() != view) world_.restart(view);
  return world_;
}

absl::StatusOr<WindowRule> CommitAgreement::first_rule(Step base, int slots, int period) {
  int64_t agreed[] = {slots};
  RETURN_IF_ERROR(
      annotate(world_.all_reduce<int64_t>(agreed, ReduceOp::kMin), "agreeing on a window"));
  const auto fewest = static_cast<int>(agreed[0]);
  return WindowRule{base, fewest, std::max(period, fewest)};
}

absl::Status CommitAgreement::fetch(Commit first, Commit last) {
  View after;
  while (in_.records.newest() < last) {
    ASSIGN_OR_RETURN(const PlanPointer plan, in_.views.pass(after));
    if (plan->newest < last) break;
    Repeats repeats;
    for (bool asks = true; in_.records.newest() < last && in_.views.newest_view() == plan->view;) {
      if (asks)
        in_.sender.send(plan->record_source, plan->view, MessageKind::kWantRecords, encode(first));
      ASSIGN_OR_RETURN(const bool signalled, in_.views.wait_signal());
      asks = !signalled && repeats.is_due();
    }
    after = plan->view;
  }
  return absl::OkStatus();
}

absl::StatusOr<Record> CommitAgreement::record_of(Commit commit) const {
  const auto bytes = in_.records.find(commit);
  CHECK(bytes) << "no record of commit " << commit;
  return decode_record(*bytes);
}

}  // namespace evermoe
