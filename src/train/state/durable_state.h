// The durable store as one rank of a job uses it: what a run goes on from, and what it leaves
// behind.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/training_position.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "checkpoint/write/checkpoint_saver.h"
#include "comm/communicator.h"
#include "train/state/local_state.h"
#include "train/step/rank_model.h"
#include "train/step/trainer_environment.h"

namespace evermoe {

// Where a run goes on, and why there.
struct Resumption {
  Step step;
  std::string source;                // path of a checkpoint and its tier, or "initial state"
  std::vector<std::string> skipped;  // newer checkpoints that could not be used, and why
  std::optional<LocalSave> local{};  // what was taken, if from the machines' own disks
};

class DurableState {
 public:
  // Both outlive this. Nothing is saved before open().
  DurableState(const TrainerEnvironment& environment, RankModel& model)
      : environment_(environment), model_(model), local_(environment_, model) {}

  // ---- reading. Masters and moments only: compute weights have to be derived from them
  // afterwards.

  // Restores what it has of the checkpoint (null: of the initial state) from elsewhere, and returns
  // the operators that have to be loaded; may be collective over the world. Asked again if loading
  // fails and an older checkpoint is taken.
  using Loading = std::function<absl::StatusOr<std::vector<OperatorState*>>(const Manifest*)>;
  // The newest checkpoint that every rank can read: of one step the ranks' own disks before shared
  // storage, if both have the same bits; there it may have been written in whatever topology. The
  // initial state if there is none. What ranks' own disks have of futures that are given up so is
  // removed. InvalidInput if it belongs to another model. Collective over `world`. Without
  // `loading` every operator is loaded.
  absl::StatusOr<Resumption> resume(Communicator& world, TrainingPosition& position,
                                    const Loading& loading = nullptr);
  // The state at `step`, which resume() has come to once in the life of the job, from saves of the
  // origin `own_saves` on the ranks' own disks, or from shared storage if that is zero. Who does
  // not find its own there takes shared storage's of the step, which has the same bits or is not
  // there (NotFound).
  absl::Status restore(Step step, const Fingerprint& own_saves, TrainingPosition& position);

  // ---- saving

  enum class Opening {
    kAlone,  // no rank saves before rank 0 has opened: what is unfinished is of former runs, and
             // removed
    kAmong,  // others may be saving; what is unfinished is theirs, or was left by who played this
             // rank before
  };
  // `pinned`, if any, is not removed when newer checkpoints are published, until saver().unpin().
  absl::Status open(Opening opening, Step pinned);
  // Finishes what was begun.
  void close() {
    saver_.reset();
    local_.close();
  }
  bool is_open() const { return saver_ != nullptr; }
  // REQUIRES: is_open() for all that follows.

  // What a disk refuses is told and outlived: Ok. Any other error comes back.
  absl::Status outlive(Step step, const absl::Status& status);
  // The same of this machine's own disk.
  absl::Status outlive_locally(Step step, const absl::Status& status);
  // The newest step whose save or publication a disk has refused for good; Step(-1).
  Step refused() const { return refused_; }
  // Tells of what failed behind training since the last call, and frees the space of saves that
  // will never be complete. Never waits.
  absl::Status look_after_saves();
  // Begins a durable checkpoint of the present state; returns when it is copied, or before that:
  // then nobody changes an operator's state before wait_copied().
  enum class Copying : uint8_t { kNow, kBehind };
  absl::Status save(TrainingPosition position, Copying copying, PartialSave partial = {});
  // The same of these shards alone, which nobody changes any more.
  absl::Status save_some(TrainingPosition position, std::vector<ShardSource> shards,
                         PartialSave partial);
  // Also if nothing is open.
  absl::Status wait_copied(const OperatorState& state);
  // All ranks have prepared this step, so rank 0 publishes it.
  void publish(Step prepared);
  CheckpointSaver& saver() const { return *saver_; }
  // Begins a save of the present state to this machine's own disk; returns when it is copied, and
  // with `waits` when it is on disk. Also if nothing is open: shared storage need not answer.
  // `pinned` as for open(); `run` as for LocalTier::begin().
  absl::Status save_locally(TrainingPosition position, View run, Step pinned, bool waits);
  LocalState& local() { return local_; }
  const LocalState& local() const { return local_; }

 private:
  // What must not change between a checkpoint and the run that continues it: model, order of the
  // samples and the tokens themselves.
  std::string identity() const;
  bool is_publisher() const { return environment_.transport->rank() == Rank(0); }
  Step newest_visible() const;
  void discard(Step step) const;
  void initialise(TrainingPosition& position);
  TrainingPosition complete(TrainingPosition position) const;
  absl::Status check_balance(const TrainingPosition& position, const std::string& path) const;
  absl::StatusOr<std::unique_ptr<CheckpointReader>> open_checkpoint(const std::string& path) const;
  // All operators, or `some`; experts come to where the checkpoint's balance has them.
  absl::Status load(CheckpointReader& checkpoint, TrainingPosition& position,
                    const std::vector<OperatorState*>* some = nullptr) const;
  absl::Status restore_on_all_ranks(Communicator& world, const std::string& path,
                                    const Loading& loading, TrainingPosition& position);
  // What shared storage has, newest first, as rank 0 sees it.
  struct SharedCandidates {
    int64_t term = 0;  // of the newest
    std::vector<std::string> paths;
  };
  absl::StatusOr<SharedCandidates> agreed_candidates(Communicator& world) const;
  int64_t term_of(const std::string& checkpoint) const;
  // Unless it is open. A disk that refuses is told as of the step `told`.
  absl::Status open_locally(Step told, Step pinned);
  absl::Status tell(Step step, const absl::Status& status) const;
  // `shared`: the checkpoint of its step in shared storage, which must have the same bits; empty:
  // there is none.
  absl::Status restore_own_on_all_ranks(Communicator& world, const LocalSave& chosen,
                                        const std::string& shared, TrainingPosition& position);
  absl::StatusOr<std::unique_ptr<CheckpointReader>> open_own(const LocalSave& chosen,
                                                             const std::string& shared) const;
  // The newest of either that can be used; nothing is left to try: the initial state.
  absl::StatusOr<Resumption> resume_newest(Communicator& world, const SharedCandidates& shared,
                                           const std::vector<LocalSave>& own,
                                           const Loading& loading, TrainingPosition& position);
  SaverOptions saver_options() const;

  const TrainerEnvironment environment_;
  RankModel& model_;
  std::unique_ptr<CheckpointSaver> saver_;
  LocalState local_;
  Step saving_{-1};  // the newest that was begun
  Step publish_requested_{-1};
  Step refused_{-1};
};

}  // namespace evermoe
