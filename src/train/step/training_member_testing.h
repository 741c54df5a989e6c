// Whole members with the torch trainer over a simulated network, under a controller of a few lines:
// everybody begins by one plan, and when all have finished they are released.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/simulated/simulated_network.h"
#include "recovery/member/member.h"
#include "train/step/trainer.h"

namespace evermoe {

class TrainingMembers {
 public:
  using MakeTrainer = std::function<absl::StatusOr<std::unique_ptr<Trainer>>(Transport&)>;
  // With a rank's trainer, null if it could not be made, and how its program ended.
  using OnEnd = std::function<void(Rank, Trainer*, const absl::Status&)>;

  TrainingMembers(const Topology& topology, uint64_t seed, MakeTrainer make_trainer);
  ~TrainingMembers();

  // The process of `rank` dies at this virtual time; nobody takes its place.
  void kill_at(Rank rank, absl::Duration time);
  // Runs the job until every process has ended; they tell `on_end`, one at a time. To be called
  // once.
  void run(OnEnd on_end);

  const SimulatedNetwork& network() const { return network_; }
  // The state that the job went on from; -1 if it did not come so far.
  Step resumed_from() const { return resumed_from_; }

 private:
  struct Process;
  std::vector<SimulatedNetwork::Thread> threads_of(Process& process);
  void come_to_life(Process& process, Transport& transport);
  void thread_ends(Process& process, Transport& transport);
  void on_finished();

  const Topology topology_;
  const MakeTrainer make_trainer_;
  Plan plan_;
  OnEnd on_end_;
  SimulatedNetwork network_;
  std::vector<std::unique_ptr<Process>> processes_;  // by rank
  int finished_ = 0;
  Step resumed_from_{-1};
};

}  // namespace evermoe
