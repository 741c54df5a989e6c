// What recovery needs from a trainer: one rank's part of a model, driven step by step.
//
// train/ implements it with torch. sim/ implements it with the hash model, whose state is folded
// with every input that reached it, so that one wrong, missing, stale or doubled input shows for
// ever.
//
// The trainer keeps the promise that makes recovery exact: what train(), apply() and evaluate() do
// is a function of the state, the position, the boundary messages, the other lanes of the stage and
// the combined findings, to the bit; random streams and data are functions of the position.
//
// Threads: the training thread calls everything but capture(), begin_capture() and
// capture_memory(), which the service thread calls while the training thread may read, but does not
// write, that operator.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "comm/communicator.h"
#include "comm/transport/deadline.h"
#include "parallel/membership.h"
#include "protection/logs/boundary_log.h"
#include "protection/schedule/capture_schedule.h"
#include "recovery/protocol/findings.h"

namespace evermoe {

// Groups (Tag::group) of the two kinds of traffic, which are revoked apart.
inline constexpr GroupRange kWorldGroups{0, 7};     // verdicts and boundaries: end with every view
inline constexpr GroupRange kStageGroups{8, 4092};  // inside a stage: end when the stage rolls back
inline constexpr uint16_t kVerdictGroup = 0;
inline constexpr uint16_t kBoundaryGroup = 1;
inline constexpr uint16_t kFirstStageGroup = kStageGroups.first;
// In which state moves to other lanes at the state of a step, in a group of its own: of roles that
// begin anew between two moves nobody knows how many messages they have exchanged.
inline constexpr GroupRange kMoveGroups{4000, 4015};
inline uint16_t move_group(Step step) {
  return static_cast<uint16_t>(kMoveGroups.first + step.value % 16);
}
// The same for experts that move between lanes that stay, which may be at the same state.
inline constexpr GroupRange kExpertMoveGroups{4016, 4031};
inline uint16_t expert_move_group(Step step) {
  return static_cast<uint16_t>(kExpertMoveGroups.first + step.value % 16);
}

// How long any call between ranks may take. Whoever waits is never to blame: a neighbour that
// recovers may gather its state for protection.recovery_deadline_seconds, up to a day, and then
// runs as many steps again as two windows have, however slow; nothing in a configuration bounds
// steps.
// The transport reports at once who is lost, and the controller finds by the pace of the whole job
// who hangs. So this is no judgement on anybody, but only the end that every wait has to have.
inline constexpr absl::Duration kCallMax = Deadline::kLongest;

// The way out of a stage. Messages are named by the work under way, the direction and the
// micro-batch.
class Boundary {
 public:
  virtual ~Boundary() = default;
  // Never waits for the receiver. The bytes must never change afterwards.
  virtual absl::Status send(Rank to, BoundaryDirection direction, MicroBatch micro_batch,
                            BoundaryMessage message) = 0;
  // The receive() of this message will follow, with the same `into`, whose memory `owner` keeps:
  // the bytes may come there from now on, while this rank computes. What is not received by the end
  // of the work under way is forgotten.
  virtual void expect(Rank from, BoundaryDirection direction, MicroBatch micro_batch,
                      std::span<std::byte> into, std::shared_ptr<const void> owner) {}
  virtual absl::Status receive(Rank from, BoundaryDirection direction, MicroBatch micro_batch,
                               std::span<std::byte> into) = 0;
};

// Which operators of the stage are dense, by index; the others are frozen: forward and gradients of
// inputs only, no gradients of weights, no update (MoEtion section 3.2).
using ActiveOperators = std::vector<bool>;

struct StageOperator {
  std::string name;
  OperatorBytes bytes;  // of this rank's shard
  OperatorBytes whole;  // of all its shards: the same on every lane
  // Its place in ExpertLoads; -1: no gate chooses it.
  int expert = -1;
  int lanes = 1;  // that hold it, if it is an expert
  // What a step costs it, per byte: tokens that add to its weights' gradients (of an expert: its
  // share if all get as many; what is counted takes its place), and its update, in tokens that
  // would cost as much. A catch-up saves both while the operator is frozen.
  double tokens = 1;
  double update_tokens = 0;
};

// What the gates of a stage chose in a step, over all its lanes. Indices: StageOperator::expert.
struct ExpertLoads {
  std::vector<int64_t> tokens;      // that went to the expert
  std::vector<double> probability;  // of the expert, summed over all tokens of the step
};

// Told of an operator whose gradients are summed over its owners: they stay as they are until the
// next train().
using OnReduced = std::function<void(int operator_index)>;

// Called before an operator's master weights, moments or compute weights change; may block.
using BeforeWrite = std::function<absl::Status(int operator_index)>;

// What a trainer had written when it was asked, also what its device is still about to write.
using WrittenState = std::shared_ptr<const void>;

// Bytes of a state on their way to host memory, beside what the trainer does.
class CopyUnderWay {
 public:
  virtual ~CopyUnderWay() = default;
  // Returns when they are there.
  virtual void wait() = 0;
};

class StageTrainer {
 public:
  virtual ~StageTrainer() = default;

  // Every operator of the stage, in the same order on all its lanes.
  virtual const std::vector<StageOperator>& operators() const = 0;
  // What this rank sends across its stage's boundaries in a step or in a batch of an evaluation, at
  // most.
  virtual int64_t boundary_bytes() const { return 0; }

  // The communicators inside the stage begin anew, with all messages in `epoch`.
  virtual void join_stage(View epoch) = 0;

  // ---- who trains (parallel/membership.h). A role that rests has no bytes of any operator. Its
  // step counts on: train() and evaluate() return what changes nothing, apply() moves the position.

  virtual const Membership& membership() const = 0;
  // As it is at another state: what this rank had is gone, and is brought by what follows
  // (resume(), restore_base(), restore(), rest_at()). Not collective.
  virtual void take_membership(const Membership& membership) = 0;
  // This role rests and is at the state to which that step's verdict has led; empty: nobody has
  // trained yet. REQUIRES: membership() says so.
  virtual void rest_at(Step step, const Findings& verdict) = 0;
  // From the state at hand on these lanes train: its operators move to them, bit for bit.
  // Collective over the roles of the stage that train before or afterwards; Ok at once for others.
  // Messages inside the stage are of `view` from then on, or of join_stage()'s if that is newer.
  // `position` comes from the lane in the first place, as this one's own did: equal wherever a role
  // trained.
  virtual absl::Status change_membership(const Membership& to, View view,
                                         RecordBytes& position) = 0;

  // ---- where experts live (experts/migration/expert_balance.h); by default they never move

  // Whether experts may come to other lanes at this state: windows begin anew there. The same on
  // every rank of the job.
  virtual bool may_move_experts(Step state) const { return false; }
  // At such a state: whether operators of this stage move, by what was counted so far. Equal on all
  // its lanes; false for a role that rests.
  virtual bool moves_experts() const { return false; }
  // At such a state, whether or not: the position knows of all stages' moves afterwards, and asked
  // again there is nothing to move. Collective over the lanes of the stage where moves_experts().
  virtual absl::Status move_experts() { return absl::OkStatus(); }
  // The newest state at which operators of this stage came to other lanes so; Step(-1): none.
  virtual Step experts_moved() const { return Step(-1); }

  // The newest durable state, or the initial one: collective over the world, whose ranks agree on
  // it. Returns where it came from.
  virtual absl::StatusOr<std::string> resume(Communicator& world) = 0;
  // Of the newest resume(), equal on every rank. A process that was not there is told before it
  // restores anything. By default it does not matter.
  virtual RunOrigin run_origin() const { return {}; }
  virtual void take_run_origin(const RunOrigin& run) {}
  // The state at `base` that resume() once came to; collective inside the stage only.
  virtual absl::Status restore_base(Step base) = 0;
  // Nobody in the job will ask for restore_base() again until the next resume(); may be called
  // often.
  virtual void forget_base() = 0;

  // One chunk of this rank's shard of an operator: kFull is master weights and moments,
  // kComputeOnly the compute weights alone, kGradients what train() found, summed over the
  // operator's owners, once it has told of that.
  virtual void capture(int operator_index, SnapshotKind kind, int64_t offset,
                       std::span<std::byte> into) const = 0;
  // The same of the state as it was `written`, without waiting for what is written later: `into`
  // has the bytes, and the operator may be written again, after wait() of what is returned; null:
  // now. By default captures come at once.
  virtual std::unique_ptr<CopyUnderWay> begin_capture(int operator_index, SnapshotKind kind,
                                                      int64_t offset, std::span<std::byte> into,
                                                      const WrittenState& written) const {
    capture(operator_index, kind, offset, into);
    return nullptr;
  }
  virtual WrittenState written() const { return nullptr; }  // training thread
  // A block that captures are fast into.
  virtual std::shared_ptr<std::byte[]> capture_memory(size_t bytes) const {
    return std::make_shared_for_overwrite<std::byte[]>(bytes);
  }
  virtual void restore(int operator_index, SnapshotKind kind, int64_t offset,
                       std::span<const std::byte> from) = 0;
  // After all chunks of these operators have been restored on all lanes: the compute weights of the
  // whole operators; collective inside the stage.
  virtual absl::Status complete_restore(const std::vector<int>& operator_indices) = 0;

  virtual Step step() const = 0;
  virtual RecordBytes position() const = 0;
  virtual absl::Status set_position(const RecordBytes& position) = 0;

  // Runs the next step's micro-batches and reduces the gradients of active operators, of each of
  // which it tells as soon as it can, in any order.
  virtual absl::StatusOr<Findings> train(const ActiveOperators& active, Boundary& boundary,
                                         const OnReduced& on_reduced) = 0;
  // How much the last train() computed, in a unit that is the same on all lanes of the stage.
  virtual double work() const { return 1; }
  // Called while train() waits for the boundary: does one chunk of what is not urgent in it, of
  // milliseconds; false if there is none.
  virtual bool do_idle_work() { return false; }
  // Of the last train(), the same on every lane of the stage; both vectors empty if nothing is
  // counted.
  virtual const ExpertLoads& expert_loads() const = 0;
  // Moves the position on and updates the active operators; collective inside the stage.
  virtual absl::Status apply(const Findings& combined, const ActiveOperators& active,
                             const BeforeWrite& before_write) = 0;

  // The same for all operators from gradients that were restored, on this rank alone: the compute
  // weights of other owners' shards stay as they are until complete_restore().
  virtual absl::Status apply_alone(const Findings& combined, const BeforeWrite& before_write) = 0;

  virtual bool is_evaluated(Step step) const = 0;  // is the state at `step` evaluated?
  // An evaluation runs in so many batches, each with a commit of its own, so that the messages of
  // one at a time are kept for a stage that goes back. The same on every rank.
  virtual int64_t evaluation_batches() const = 0;
  virtual absl::StatusOr<Findings> evaluate(int64_t batch, Boundary& boundary) = 0;
  // Of all batches together.
  virtual void apply_evaluation(const Findings& combined) = 0;

  virtual bool is_saved(Step step) const = 0;  // is the state at `step` saved durably?
  virtual absl::Status save() = 0;

  // Whether the run ends here: the last step, or everybody was asked to stop.
  virtual bool is_finished() const = 0;
  // What this rank says to a closing commit; closings are repeated until is_closed(). Not called
  // for those that have a record already. A process that has come too late for save() saves here,
  // unless a record said that the files of its predecessor are all that is needed.
  virtual absl::StatusOr<Findings> close() = 0;
  virtual bool is_closed(const Findings& combined) = 0;
};

}  // namespace evermoe
