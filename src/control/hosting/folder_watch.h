// What a node asks the job's folder while no controller answers it: whether the job has ended
// without it, and where the controller is now. For jobs without a store: that says where the host
// is, and whoever is elected says how the job ended (node_hosting.h).
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "checkpoint/write/folder_term.h"
#include "control/agent/agent.h"
#include "control/launch/node_run.h"
#include "control/wire/mailbox.h"

namespace evermoe {

// Where to call next: where the node was told that the controller is, and where the folder says,
// in turn, because either can be out of date. Pure.
class ControllerPlace {
 public:
  // A call across a slow network may take so long.
  static constexpr absl::Duration kTurn = absl::Seconds(6);

  explicit ControllerPlace(std::string told) : told_(std::move(told)), current_(told_) {}

  // `named`: by the folder, if it names any.
  const std::string& next(absl::Duration now, const std::string& named);
  // It is where it was called last.
  void on_answer() { turn_ends_ = -absl::InfiniteDuration(); }

 private:
  const std::string told_;
  std::string current_;
  absl::Duration turn_ends_ = -absl::InfiniteDuration();
};

class FolderWatch {
 public:
  // Both outlive it. REQUIRES: no options.store.
  FolderWatch(const NodeOptions& options, Agent& agent);
  ~FolderWatch();

  // The agent has ended. How the job has, if that is why. Once, before the destruction.
  std::optional<EndJob> end();

 private:
  void watch();
  bool look_at_end();

  const NodeOptions& options_;
  Agent& agent_;
  const std::optional<NewestTerm> met_;  // when this node came
  ControllerPlace place_;
  Mailbox<bool> stopped_;
  std::optional<EndJob> ended_;  // the thread's until it has ended
  std::thread thread_;
};

}  // namespace evermoe
