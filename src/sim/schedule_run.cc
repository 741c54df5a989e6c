#include "sim/schedule_run.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check_story.h"
#include "base/mutex.h"
#include "sim/lanes/told_lanes.h"

namespace evermoe {
namespace {

constexpr size_t kQueueMax = 2000;
constexpr absl::Duration kDurationMax = absl::Minutes(1);
// A step of many small messages and copies, and its share of what goes wrong.
constexpr absl::Duration kDurationOfStepMax = absl::Seconds(1);
// On a network so slow that a step with its copies takes seconds, a recovery takes more.
constexpr double kSlowBytesPerSecond = 1e5;
constexpr absl::Duration kSlowDurationMax = absl::Minutes(2);
// Who hears nothing for so long is late with everything, but keeps nobody waiting for longer.
constexpr absl::Duration kDeafMax = absl::Milliseconds(160);
// A role that dies soon after each start, with nowhere else to go, ends a step now and then, by
// luck: of 92 such jobs with `gradients` half lost no further process, and one 221 of them.
constexpr absl::Duration kDoomedDurationMax = absl::Minutes(10);

std::string text_of(const MembershipHistory& history) {
  std::string text;
  for (const MembershipChange& change : history) {
    absl::StrAppend(&text, "|", change.step.value, ":");
    for (const Rank rank : change.resting) absl::StrAppend(&text, rank.value, ",");
  }
  return text;
}

// Undisturbed digests by shape and by who rested when: thousands of schedules share a few.
std::string undisturbed_digest(SimulatedShape shape, const MembershipHistory& history) {
  shape.elastic = {};
  shape.elastic.script = history;
  shape.computing = absl::ZeroDuration();
  static Mutex mutex;
  static std::map<std::string, std::string> known ABSL_GUARDED_BY(mutex);
  const std::string key =
      absl::StrCat(absl::StrJoin(shape.lanes, ","), "|", shape.model.seed, "|", shape.model.steps,
                   "|", shape.model.micro_batches, "|", shape.model.evaluate_every, "|",
                   shape.model.evaluation_batches, "|", shape.model.save_every, "|",
                   shape.model.move_experts_every, text_of(history));
  const MutexLock lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  shape.nodes = 1;
  shape.late_node = Node(-1);
  shape.has_store = false;
  const SimulatedOutcome outcome = SimulatedJob(shape, {}).run();
  return known[key] = outcome.ok ? outcome.digest : "the undisturbed run failed: " + outcome.reason;
}

// Of a run without faults whose operators go back where those of `outcome` did. Says what differs.
std::string check_partial_restarts(SimulatedShape shape, const SimulatedOutcome& outcome) {
  shape.nodes = 1;
  shape.late_node = Node(-1);
  shape.has_store = false;
  shape.strategy = StrategyKind::kNone;
  shape.model.experts_saved = 0;
  shape.model.restarts =
      std::make_shared<const std::vector<PartialRestartPoint>>(outcome.partial_restarts);
  const SimulatedOutcome expected = SimulatedJob(shape, {}).run();
  if (!expected.ok) return "the run to compare with failed: " + expected.reason;
  if (outcome.lost_tokens != expected.lost_tokens)
    return absl::StrCat("lost ", outcome.lost_tokens,
                        " tokens of experts according to the counters, ", expected.lost_tokens,
                        " according to the states");
  if (outcome.digest == expected.digest) return "";
  return absl::StrCat("digest ", outcome.digest, " instead of ", expected.digest, " after ",
                      outcome.partial_restarts.size(), " restarts");
}

// So many roles may be lost, whichever they are and whenever, before all copies of one can be gone.
bool copies_may_be_gone(const RandomSchedule& schedule, const SimulatedOutcome& outcome) {
  for (const SimulatedFault& fault : schedule.faults) {
    if (fault.kind == SimulatedFault::Kind::kCorruptCopies) return true;
  }
  // A controller that hears of nobody in time begins anew.
  if (outcome.marks.contains("begun anew by a later controller")) return true;
  size_t lost = 0;
  int world = 0;
  for (const RecoveryRecord& record : outcome.recoveries) lost += record.roles.size();
  // A process whose role moves takes with it what it kept for others.
  for (const MoveRecord& move : outcome.moves) {
    if (move.state != MoveRecord::State::kCalledOff) lost += move.roles.size();
  }
  for (const int width : schedule.shape.lanes) world += width;
  return lost > static_cast<size_t>(std::min(schedule.shape.copies, world - 1));
}

// Going back to a durable state, or a refusal to, has to be justified.
std::string check_restarts(const RandomSchedule& schedule, const SimulatedOutcome& outcome) {
  if (!strategy_of(schedule.shape.strategy).keeps_copies()) return "";
  if (copies_may_be_gone(schedule, outcome)) return "";
  for (const RecoveryRecord& record : outcome.recoveries) {
    // A failure before anybody has a state leaves nothing to go back to.
    if (record.restarted_all && record.step > Step(0)) {
      return absl::StrCat("all went back at step ", record.step.value,
                          " though copies were left: ", absl::StrJoin(record.reasons, "; "));
    }
  }
  return "";
}

// Where a loss sends everybody back, nobody stays where he is.
std::string check_scope(const SimulatedShape& shape, const SimulatedOutcome& outcome) {
  if (!strategy_of(shape.strategy).sends_everybody_back()) return "";
  for (const RecoveryRecord& record : outcome.recoveries) {
    const std::vector<int>& back = record.rolled_back_stages;
    if (!record.restarted_all && !back.empty() && back.size() < shape.lanes.size())
      return absl::StrCat("only ", back.size(), " stages went back at step ", record.step.value);
  }
  return "";
}

bool has_doomed_role(const RandomSchedule& schedule) {
  return std::ranges::any_of(schedule.faults, [](const SimulatedFault& fault) {
    return fault.kind == SimulatedFault::Kind::kDoomRole;
  });
}

bool has_slow_network(const SimulatedShape& shape) {
  const double rate = shape.network.bytes_per_second;  // 0: no limit
  return rate > 0 && rate < kSlowBytesPerSecond;
}

absl::Duration duration_max(const RandomSchedule& schedule) {
  if (has_doomed_role(schedule)) return kDoomedDurationMax;
  return std::max(has_slow_network(schedule.shape) ? kSlowDurationMax : kDurationMax,
                  schedule.shape.model.steps * kDurationOfStepMax);
}

// Who dies is missed at once, and nobody waits for what will not come until the job is found to
// stand still. Other faults may leave somebody waiting; so does a node whose line may come back,
// and a step in which roles are handed over slowly.
bool only_kills(const RandomSchedule& schedule) {
  using Kind = SimulatedFault::Kind;
  return std::ranges::all_of(schedule.faults, [&](const SimulatedFault& fault) {
    return fault.kind == Kind::kKillWorker || fault.kind == Kind::kKillController ||
           fault.kind == Kind::kDoomRole || fault.kind == Kind::kKillStandby ||
           fault.kind == Kind::kLeaveNode || fault.kind == Kind::kDrainJob ||
           (fault.kind == Kind::kDeafNode && fault.lasts <= kDeafMax) ||
           (fault.kind == Kind::kMoveRoles && !has_slow_network(schedule.shape)) ||
           (fault.kind == Kind::kKillNode && !schedule.shape.lines_may_break);
  });
}

std::string check_liveness(const RandomSchedule& schedule, const SimulatedOutcome& outcome) {
  if (!only_kills(schedule)) return "";
  const auto stands_still = [](const std::string& line) {
    return absl::StrContains(line, "nothing has happened for");
  };
  const auto line = std::ranges::find_if(outcome.story, stands_still);
  return line == outcome.story.end() ? "" : "the job stood still: " + *line;
}

// How it went, whatever came of it.
std::string check_course(const RandomSchedule& schedule, const SimulatedOutcome& outcome) {
  if (!outcome.ended) return "the job never ended";
  if (!outcome.violations.empty())
    return "a rule of views is broken: " + outcome.violations.front();
  if (outcome.longest_queue > kQueueMax)
    return absl::StrCat(outcome.longest_queue, " envelopes waited in one stream");
  if (outcome.duration > duration_max(schedule))
    return "it took " + absl::FormatDuration(outcome.duration);
  if (!outcome.contradictions.empty())
    return "something computed again has other bits: " + outcome.contradictions.front();
  return check_liveness(schedule, outcome);
}

// Of a job that was given up.
std::string check_refusal(const RandomSchedule& schedule, const SimulatedOutcome& outcome) {
  const bool refuses = !schedule.shape.restart_all_allowed &&
                       outcome.reason.starts_with("cannot go on exactly") &&
                       copies_may_be_gone(schedule, outcome);
  // Nowhere else is room for the role.
  const bool is_given_up =
      has_doomed_role(schedule) && (outcome.reason.starts_with("given up after ") ||
                                    absl::StrContains(outcome.reason, " losses without"));
  return refuses || is_given_up ? "" : absl::StrCat("the job failed: ", outcome.reason);
}

// A job that went back to a checkpoint on other lanes, or was begun anew from one, has evaluated it
// on those of before, where an undisturbed one does so on those that train from there; and one that
// had nothing left to train has the files of the former lanes.
bool was_finished_on_other_lanes(const SimulatedShape& shape, const SimulatedOutcome& outcome) {
  if (outcome.membership.empty()) return false;
  const bool has_gone_back =
      outcome.marks.contains("begun anew by a later controller") ||
      std::ranges::any_of(outcome.recoveries,
                          [](const RecoveryRecord& record) { return record.restarted_all; });
  return (has_gone_back && shape.model.evaluate_every > 0) ||
         outcome.membership.back().step >= Step(shape.model.steps);
}

// By an operator, or because machines leave: then it is a job of fewer steps.
bool may_be_drained(const RandomSchedule& schedule) {
  return std::ranges::any_of(schedule.faults, [](const SimulatedFault& fault) {
    return fault.kind == SimulatedFault::Kind::kLeaveNode ||
           fault.kind == SimulatedFault::Kind::kDrainJob;
  });
}

// Of a job that came to its end: its memory, its bits, its samples.
std::string check_result(const SimulatedShape& shape, const SimulatedOutcome& outcome) {
  if (outcome.log_bytes_peak > shape.log_bytes_max) return "the boundary log exceeded its limit";
  if (outcome.snapshot_bytes_peak > shape.snapshot_bytes_max)
    return "snapshots exceeded their limit";
  if (strategy_of(shape.strategy).saves_few_experts) {
    if (std::string problem = check_partial_restarts(shape, outcome); !problem.empty())
      return problem;
  } else {
    const std::string expected = undisturbed_digest(shape, outcome.membership);
    // The host before may have brought it to its end, on all lanes.
    const bool is_of_former = outcome.marks.contains("begun anew by a later controller") &&
                              outcome.digest == undisturbed_digest(shape, {});
    if (outcome.digest != expected && !is_of_former && !was_finished_on_other_lanes(shape, outcome))
      return absl::StrCat("digest ", outcome.digest, " instead of ", expected,
                          outcome.membership.empty() ? "" : " with other lanes from ",
                          text_of(outcome.membership));
  }
  const int64_t samples = shape.model.steps * shape.model.micro_batches;
  // Where all were lost after the last save, or lived under the host before, nobody counts, but the
  // files have the digest.
  const bool has_ended_before = outcome.marks.contains("nothing left to host") ||
                                outcome.marks.contains("ended under the host before");
  if (outcome.samples == 0 && has_ended_before) return "";
  if (outcome.samples != samples)
    return absl::StrCat(outcome.samples, " samples instead of ", samples);
  return "";
}

// What the run says of who trained is what members have trained on: a job that follows it has the
// same bits. A host that had lost the job before it knew cannot hand on what it heard since; where
// the job has ended under it no members are left whom the next one could ask, but the checkpoint
// says it (control/launch/job_run.cc).
std::string check_told_lanes(const SimulatedShape& shape, const SimulatedOutcome& outcome) {
  if (!shape.elastic.is_enabled || outcome.marks.contains("ended under the host before")) return "";
  const Topology topology(shape.lanes, static_cast<int64_t>(shape.lanes.size()));
  const std::string trained = lanes_text(topology, outcome.membership, Step(shape.model.steps));
  const std::string told = lanes_text(topology, outcome.told_lanes, Step(shape.model.steps));
  return trained == told ? "" : absl::StrCat("told of lanes ", told, " instead of ", trained);
}

// After one failure only the stages that go back run steps again, and not many.
std::string check_rework(const SimulatedShape& shape, const SimulatedOutcome& outcome) {
  if (outcome.recoveries.size() != 1 || outcome.recoveries[0].views.size() != 1) return "";
  const RecoveryRecord& only = outcome.recoveries[0];
  if (only.restarted_all) return "";
  // Where all went back before, because nothing moved, nobody was lost; nor where a controller took
  // over in the middle of a switch: that is no recovery.
  const auto went_back_otherwise = [](const std::string& line) {
    return absl::StrContains(line, "all stages go back") ||
           (absl::StrContains(line, " goes back") && !absl::StrContains(line, "incident "));
  };
  if (std::any_of(outcome.story.begin(), outcome.story.end(), went_back_otherwise)) return "";
  const Topology topology(shape.lanes, static_cast<int64_t>(shape.lanes.size()));
  for (int32_t r = 0; r < topology.world_size(); ++r) {
    const bool goes_back =
        std::find(only.rolled_back_stages.begin(), only.rolled_back_stages.end(),
                  topology.role_of(Rank(r)).stage) != only.rolled_back_stages.end();
    const int64_t again = outcome.work[static_cast<size_t>(r)].steps_recomputed;
    const int period = std::max({shape.period, shape.window, shape.changes_windows ? 4 : 1});
    if (!goes_back && again > 0)
      return absl::StrCat("rank ", r, " ran ", again, " steps again though its stage lost nobody");
    // Where experts move the window under way is cut, and another one begins. What a role that
    // moves has captured of it stays behind if it is not there in time.
    const int64_t every = shape.model.move_experts_every;
    const int windows = outcome.marks.contains("move of roles done") ? 3 : 2;
    if (again > std::max<int64_t>(windows * period, every > 0 ? every + period + 1 : 0))
      return absl::StrCat("rank ", r, " ran ", again, " steps again with a window of ",
                          shape.window);
  }
  return "";
}

// Only who was made slow is a straggler.
std::string check_stragglers(const RandomSchedule& schedule, const SimulatedOutcome& outcome) {
  for (const StragglerFound& found : outcome.stragglers) {
    const bool is_one = std::ranges::any_of(schedule.faults, [&](const SimulatedFault& fault) {
      return fault.kind == SimulatedFault::Kind::kSlowWorker && fault.rank == found.rank;
    });
    if (!is_one && !found.is_over)
      return absl::StrCat("rank ", found.rank.value, " is taken for a straggler at step ",
                          found.step.value);
  }
  return "";
}

// Only what was made slow is a slow link: an answer goes back over it. Where the network is so slow
// that one message before a probe makes it later than that, links with more traffic are slow, too.
std::string check_slow_links(const RandomSchedule& schedule, const SimulatedOutcome& outcome) {
  if (has_slow_network(schedule.shape)) return "";
  for (const SlowLinkFound& found : outcome.slow_links) {
    const bool is_one = std::ranges::any_of(schedule.faults, [&](const SimulatedFault& fault) {
      return fault.kind == SimulatedFault::Kind::kSlowLink &&
             std::minmax(fault.node, fault.peer) == std::minmax(found.from, found.to);
    });
    if (!is_one && !found.is_over)
      return absl::StrCat("the link from node ", found.from.value, " to node ", found.to.value,
                          " is taken for slow at step ", found.step.value);
  }
  return "";
}

std::string problem_of(const RandomSchedule& schedule, const SimulatedOutcome& outcome) {
  if (std::string problem = check_course(schedule, outcome); !problem.empty()) return problem;
  if (std::string problem = check_restarts(schedule, outcome); !problem.empty()) return problem;
  if (std::string problem = check_scope(schedule.shape, outcome); !problem.empty()) return problem;
  if (std::string problem = check_stragglers(schedule, outcome); !problem.empty()) return problem;
  if (std::string problem = check_slow_links(schedule, outcome); !problem.empty()) return problem;
  if (!outcome.ok) return check_refusal(schedule, outcome);
  SimulatedShape shape = schedule.shape;
  if (may_be_drained(schedule) && outcome.steps > 0)
    shape.model.steps = std::min(shape.model.steps, outcome.steps);
  if (std::string problem = check_result(shape, outcome); !problem.empty()) return problem;
  if (std::string problem = check_told_lanes(shape, outcome); !problem.empty()) return problem;
  return check_rework(schedule.shape, outcome);
}

}  // namespace

const std::vector<std::string>& rare_paths() {
  static const std::vector<std::string> all = {
      "joint segment", "failure during a recovery", "restart of all", "unusable copy skipped",
      "survivor verified", "survivor of a double loss in one stage", "controller killed", "refused",
      "new capture order", "restored in an order that was counted", "every stage back to memory",
      // Of the control plane.
      "controller stopped and back", "controller hung", "taken over by another host",
      "agent follows the next host", "worker shown to a new controller", "not adopted",
      "agent stopped and back", "worker of a stopped node back", "agent lost for its silence",
      "agent lost with its line", "agent attaches before its old line breaks",
      "living node given up", "role moved away from where it kept dying",
      "agent back on a new line", "former process of a role told to end", "spare takes over",
      "standby takes a role", "leaver waits as a standby", "move of roles done",
      "move of roles called off", "several roles moved in one switch", "roles changed places",
      "roles left a crowded node", "state restored ahead", "role told too late to leave",
      "handed over in vain", "straggler found", "slow link found", "node lost and back",
      "node joins late", "node left the job", "job drained", "notice run out",
      "machine not fit for a while", "no node was left", "plan told to another agent",
      "agent waits in vain for another one's plan", "agent does not get another one's plan",
      "words lost with a line", "call failed", "line cut", "one-way cut",
      "machine left out for its network", "two machines do not reach each other",
      // Of the network between workers.
      "workers cut from each other", "workers cut one way", "node unplugged",
      "peer lost in silence",
      // Of hosts.
      "old host fenced", "old host fenced when it had lost others", "end told by an old host",
      "host stopped and back", "host lost with its machine", "host no longer elected", "store away",
      "clock stood still",
      // Of the disk.
      "save failed", "save repeated after it failed", "checkpoint with a failed save skipped",
      "back from disk"};
  return all;
}

ScheduleResult run_schedule(uint64_t seed, const ScheduleOptions& options) {
  const RandomSchedule schedule = random_schedule(seed, options);
  ScheduleResult result;
  result.seed = seed;
  for (const SimulatedFault& fault : schedule.faults) result.faults.push_back(to_string(fault));
  const CheckStory story([&] {
    return absl::StrCat("seed ", seed, "\n  planned: ", absl::StrJoin(result.faults, "; "));
  });
  result.outcome = SimulatedJob(schedule.shape, schedule.faults).run();
  result.problem = problem_of(schedule, result.outcome);
  result.passed = result.problem.empty();
  return result;
}

std::string ScheduleResult::transcript() const {
  return absl::StrCat("seed ", seed, ": ", passed ? "passed" : problem,
                      "\n  planned: ", absl::StrJoin(faults, "; "), "\n  ",
                      absl::StrJoin(outcome.story, "\n  "), "\n", outcome.waiting);
}

}  // namespace evermoe
