// Checkpoints with a few experts, as one rank of the hash model makes them and goes back to them:
// what train/step/partial_checkpoints.h is to the trainer. LOSSY.
//
// Threads: training thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "parallel/topology.h"
#include "protection/partial_experts/partial_saves.h"
#include "sim/hash/hash_model.h"
#include "sim/simulated_disk.h"

namespace evermoe {

class HashPartial {
 public:
  // All outlive it.
  HashPartial(const Topology& topology, Role role, const HashModelOptions& options,
              HashModel& model, SimulatedDisk& disk);

  // Everybody goes back to the state at `step` (0: the initial one, which the model has), in this
  // view. Collective over `world`.
  absl::Status restart(Communicator& world, View view, Step step);
  // False if others have gone back without this rank.
  bool may_write() const { return disk_.partial().may_write(view_); }
  // By a verdict.
  void on_verdict(Step published, Step refused);
  void on_update(const std::vector<int64_t>& tokens) { saves_.add_step(tokens); }
  // Copies the present state to memory, for a checkpoint that begins when it can.
  void take();
  Step waiting() const { return saves_.waiting(); }
  // Whether the checkpoint that waits has been saved. NoCapacity if the disk is full, Cancelled if
  // others have gone back without this rank.
  absl::StatusOr<bool> begin();
  // Saves all of the present state, at the end of the run. Errors as of begin().
  absl::Status save_whole();

 private:
  int expert_index(int operator_index) const;  // in the stage, by layer and expert; -1: no expert
  StoredExperts stored_experts(Step step) const;
  std::vector<int64_t> images_for(Step step) const;
  bool is_in(const LossySelection& selection, int operator_index) const;
  absl::Status write(Step step, const HashModel& state, PartialFiles::Part part);

  struct Image {
    Step step;
    HashModel::Shard shard;
  };

  const Topology& topology_;
  const Role role_;
  const Rank rank_;
  const HashModelOptions& options_;
  HashModel& model_;
  SimulatedDisk& disk_;
  View view_{0};  // of the last restart
  const PartialSavesOptions saves_options_;
  PartialSaves saves_;
  std::map<int, Image> images_, under_way_, waiting_;  // by operator
  std::optional<HashModel> waiting_state_;             // of what waits
};

// The oracle: a run without faults in which every operator goes back at the same places to the same
// versions. It counts what the experts have learned from, so it knows what that cost.
class HashRestarts {
 public:
  HashRestarts(const HashModelOptions& options, Rank rank, HashModel& model)
      : options_(options), rank_(rank), model_(model) {}

  // Before the step that starts from the present state. Returns whether the state has changed.
  bool arrive();
  // After an update from so many tokens, by layer and expert.
  void on_update(const std::vector<int64_t>& tokens);
  int64_t lost() const { return lost_; }

 private:
  struct State {
    HashModel::Shard shard;
    int64_t learned = 0;
  };
  const HashModelOptions& options_;
  const Rank rank_;
  HashModel& model_;
  std::map<int64_t, std::map<int, State>> history_;  // by step and operator
  std::map<int, int64_t> learned_;                   // by operator
  int64_t lost_ = 0;
};

}  // namespace evermoe
