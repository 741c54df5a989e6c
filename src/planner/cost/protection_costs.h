// What each way to protect a job costs it, from what it holds and what its links carry.
//
// Every function prices one kind of protection: how long steps become, how often to save, what a
// failure then costs, how much host memory it takes. What does not fit is a reason, not an error:
// the planner shows it beside what it chose.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planner/cluster_model/cluster_spec.h"
#include "planner/cost/job_profile.h"
#include "planner/plan/expert_plan.h"
#include "planner/plan/plan_input.h"
#include "planner/simulate/run_strategy.h"
#include "protection/schedule/window_plan.h"

namespace evermoe {

struct PricedProtection {
  RunStrategy strategy;  // replacement: restart
  double host_bytes_per_gpu = 0;
  double stall_share = 0;          // of a mean step, overhead and stalls together
  std::optional<OrderKind> order;  // of sparse captures
  std::vector<std::string> reasons;
  std::string
      fallback_reason;  // why durable saves below copies in memory are as often; empty without
};

// Why a protection is not possible: "needs 96.0 GB of host memory per GPU, 31.3 GB are allowed".
struct ProtectionRefused {
  std::string name;
  std::string reason;
};

using Priced = std::variant<PricedProtection, ProtectionRefused>;

// Everything is saved to durable storage, in the background after a copy to host memory (as
// CheckFreq). The interval is the exact optimum for the stall, or the budget's; at least as long as
// a save is under way.
Priced price_durable(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget);

// Everything is copied to peers' memory (as Gemini), durable saves below. Fewer copies if memory
// asks for it.
Priced price_peer_memory(const JobProfile& job, const ClusterSpec& cluster,
                         const PlanBudget& budget);

// The same, but every step's gradients go there, too, before the next update (after Checkmate): a
// failure loses the step under way. The interval is the budget's, or kGradientBaseSteps.
inline constexpr int64_t kGradientBaseSteps = 8;
Priced price_gradients(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget);

// LOSSY. Durable saves of everything but experts and of K experts per layer (PEC). The least K,
// with its best interval, whose expected loss stays within the budget. Refused if the budget allows
// no loss.
Priced price_partial_experts(const JobProfile& job, const ClusterSpec& cluster,
                             const PlanBudget& budget);

// LOSSY. The same with K and the interval given; K as in the run at first.
// REQUIRES: saved >= 1, every_steps >= 1.
Priced price_saves_of_experts(const JobProfile& job, const ClusterSpec& cluster, int saved,
                              int every_steps);

// Windows of sparse snapshots at peers (MoEtion), durable saves below:
// protection/schedule/window_plan.h's plan for every different stage, at the longest of their
// windows.
Priced price_sparse(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget);

// Live replicas of every state on several nodes of its stage (as Lazarus), durable saves below:
// nothing is copied, and a failure loses the step under way. But optimizer states cannot be cut
// into shards that are there once: every rank keeps and updates those of all it holds, and
// gradients must be whole everywhere. Replicas are those of `experts`.
Priced price_replicas(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget,
                      const ExpertPlan& experts);

// The same protection where the job goes on with fewer nodes. Memory for snapshots and copies is
// that of the fewest, where each rank has more of the state (as elastic.min_nodes sets it aside).
Priced price_elastic(const PricedProtection& priced, const JobProfile& job,
                     const ClusterSpec& cluster, const PlanBudget& budget);

// Nothing is ever saved: costs nothing, and every failure takes the job back to its beginning.
PricedProtection price_nothing(const JobProfile& job, const ClusterSpec& cluster);

// What takes all copies of a state in memory, so that only durable saves are left. Mean seconds
// between, 0 for never.
struct MemoryLoss {
  double copies_mtbf_seconds =
      0;  // all holders of one state, before they hold copies again (an estimate)
  double rack_mtbf_seconds = 0;       // the rack, where there is only one
  double whole_job_mtbf_seconds = 0;  // storage, switches, power
  double mtbf_seconds() const;        // of any of them
};
MemoryLoss memory_loss(const JobProfile& job, const ClusterSpec& cluster, int copies);

// The durable saves below copies in memory, needed only when those are lost: the interval is the
// exact optimum for that (protection/interval/interval.h), no longer than kFallbackLongestSeconds
// and no shorter than a save takes. Nothing without storage.
inline constexpr double kFallbackLongestSeconds = 24 * 3600;
PeriodicSave price_fallback(const JobProfile& job, const ClusterSpec& cluster, int copies);
// The same for a priced protection, with its copies and the reason.
void add_fallback(const JobProfile& job, const ClusterSpec& cluster, PricedProtection& priced);

// What an interruption takes: the cluster's times, with the state's way besides. A move's goes
// twice over the link, to those who keep the copies and from them to the new process.
RecoverySeconds recovery_seconds(const JobProfile& job, const ClusterSpec& cluster);

// Seconds to read the whole state from durable storage; from peers.
double load_durable_seconds(const JobProfile& job, const ClusterSpec& cluster);
double load_memory_seconds(const JobProfile& job, const ClusterSpec& cluster);

// By which a save of all that a rank holds outlasts the time before its next update.
double save_stall_seconds(const JobProfile& job, const ClusterSpec& cluster);

// By which training stands still for a save of `bytes` per rank that is copied beside it.
double copy_stall_seconds(const JobProfile& job, const ClusterSpec& cluster, double bytes);

// Slower steps while links are busy with saves for `busy_seconds` of every interval, as a share.
double save_overhead_share(const JobProfile& job, const ClusterSpec& cluster,
                           const PeriodicSave& save, double busy_seconds);

// As many as the budget asks for, or as memory and nodes allow where a rank keeps `own_bytes` for
// itself and as many for each peer. Less than 1: there is no other node.
int affordable_copies(const JobProfile& job, const ClusterSpec& cluster, const PlanBudget& budget,
                      double own_bytes);

double host_budget_bytes(const ClusterSpec& cluster, const PlanBudget& budget);

// Fills in the stall share of what has its strategy and memory; the reason if the budget does not
// allow it.
std::optional<ProtectionRefused> over_budget(const char* name, const JobProfile& job,
                                             const ClusterSpec& cluster, const PlanBudget& budget,
                                             PricedProtection& priced);

// The job as the simulation wants it.
TrainedJob trained_job(const JobProfile& job, const ClusterSpec& cluster);

}  // namespace evermoe
