// The tier of the machines' own disks as one rank of a job uses it (checkpoint/tiers): what all
// ranks find there together, and what this one leaves there. No part of it needs storage that
// others see, once it is open.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/read/checkpoint_reader.h"
#include "checkpoint/tiers/local_tier.h"
#include "comm/communicator.h"
#include "train/step/rank_model.h"
#include "train/step/trainer_environment.h"

namespace evermoe {

class LocalState {
 public:
  // Both outlive this.
  LocalState(const TrainerEnvironment& environment, RankModel& model)
      : environment_(environment), model_(model) {}

  // Whether the job has such a tier: the same on all ranks. Nothing that follows does anything
  // where it has none.
  bool is_used() const { return !environment_.local_directory.empty(); }

  // ---- reading

  // What all ranks have, newest first; `term` as for usable_local_saves(). Collective.
  absl::StatusOr<std::vector<LocalSave>> find(Communicator& world, int64_t term);
  // This rank's part of one that find() returned. Corrupt for whatever is wrong with it.
  absl::StatusOr<std::unique_ptr<CheckpointReader>> open_found(const LocalSave& chosen) const;
  // The same of a committed one of that step and origin, for a process that has taken a lost one's
  // place; NotFound if there is none.
  absl::StatusOr<std::unique_ptr<CheckpointReader>> open_committed(Step step,
                                                                   const Fingerprint& origin);
  // Its path, for people.
  std::string path_of_found(const LocalSave& chosen) const;

  // ---- saving

  // The run goes on from `from`, which is `chosen` if that came from here: removes what must never
  // be met again. Collective in that all ranks do it before any saves.
  absl::Status settle(Step from, const std::optional<LocalSave>& chosen);
  absl::Status open(SaverOptions options, Step pinned);
  void close() { tier_.reset(); }
  bool is_open() const { return tier_ != nullptr; }

  // Begins a save; returns when the state is copied. REQUIRES: is_open().
  absl::Status save(const TrainingPosition& position, View run, bool waits);
  // The newest that this rank has on disk; Step(-1) where it has none.
  Step prepared() const { return tier_ ? tier_->prepared() : Step(-1); }
  // All ranks have prepared it.
  absl::Status commit(Step prepared, bool waits);
  Step committed() const { return tier_ ? tier_->committed() : Step(-1); }
  // What has failed behind training since the last call; the space of the save is given back.
  absl::Status look_after_saves();
  Step saving() const { return saving_; }
  void unpin();

 private:
  absl::Status locate();
  int rank() const { return environment_.transport->rank().value; }

  const TrainerEnvironment& environment_;
  RankModel& model_;
  std::string directory_;         // of this rank; empty before locate()
  std::vector<LocalSave> found_;  // of this rank, by the last find()
  std::unique_ptr<LocalTier> tier_;
  Step saving_{-1};
};

}  // namespace evermoe
