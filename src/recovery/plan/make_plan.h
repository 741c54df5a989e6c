// From what the members report to the plan of the next view. Pure: the same reports give the same
// plan.
//
// Scope: a stage goes back if one of its ranks is fresh (unless that only rests, and has done so
// since the window), if its ranks did not all join it in the same view, or if one of them had to
// leave its step or has a state from before the window. All other stages stay where they are, also
// those that are still catching up from an earlier failure: boundary messages are taken from their
// senders' logs as soon as they are there, so stages that run the same steps again at the same time
// feed each other, adjacent or not.
//
// Where the strategy says so, everybody goes back if one stage does.
//
// Nobody goes back where all that these stages need is at the newest state: their ranks that live
// have it, and others hold it whole of those that are new, because they were handed over, or were
// lost just after a window of one slot. The stages begin anew there (Plan::renews). What a process
// that came so has not sent itself it cannot send again: a stage goes back where a neighbour is
// running steps again for which it needs that, and later with neighbours that go back.
//
// Where to: the newest window that was complete on every rank of the job, which every record names.
// Logs and records reach back to it everywhere. Its lanes are those of that time
// (parallel/membership.h): roles that rest by now come back for it. Where gradients are kept, too,
// a stage comes to the newest state: ranks that have theirs keep it, the others need a window and
// all gradients since.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/topology.h"
#include "protection/strategy/strategy.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

struct PlanInputs {
  View view;
  const Topology* topology = nullptr;
  std::vector<PeerAddress> table;                 // by rank
  std::vector<Report> reports;                    // by rank, all of this view
  std::vector<std::vector<Rank>> holders;         // by rank, for the time after
  std::vector<std::vector<Rank>> former_holders;  // by rank, for explanations; may be empty
  Strategy strategy;
  // Who rests when, if that is given; else it follows from what was planned before and from
  // `wanted`.
  MembershipHistory script;
  // Who rests from the state after the newest one on; of it the step is made here.
  std::optional<MembershipChange> wanted;
  // Not empty: why all stages have to go back, to a window in memory if every rank's is there.
  std::string go_back_reason;
  std::string restart_reason;  // not empty: why the whole job has to go back to its durable state
};

Plan make_plan(const PlanInputs& inputs);

// Whether operators have come to other lanes between the plan's window and its state: lanes by the
// plan, or experts, as far as one knows whose last have moved at `experts_moved`.
bool has_moved_since(const Plan& plan, Step experts_moved);

// Runs of adjacent stages: one segment catches up together, different ones apart.
std::vector<std::vector<int>> segments_of(std::vector<int> stages);

}  // namespace evermoe
