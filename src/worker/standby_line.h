// A standby's line to its agent, which gives it a role when this machine is to play one
// (control/agent/agent_standbys.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "control/wire/control_call.h"
#include "control/wire/control_messages.h"
#include "worker/worker.h"

namespace evermoe {

class StandbyLine final : private StreamEvents {
 public:
  // Says hello. Where the agent is gone the process ends.
  explicit StandbyLine(const std::string& agent);
  ~StandbyLine() override;

  // Says that this process is warm, sleeps until there is a role for it, and ends the line: the
  // worker has one of its own (control/wire/control_client.h).
  TakeRole wait_for_role();

 private:
  void on_envelope(StreamNumber, Envelope envelope) override;
  void on_broken(StreamNumber, const std::string& why) override;
  void end();

  Mutex mutex_;
  CondVar changed_;
  std::optional<TakeRole> role_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ControlCall> call_ ABSL_GUARDED_BY(mutex_);
};

// Those of the worker that plays this role, which writes where the agent says from now on.
WorkerOptions options_with(const TakeRole& role, WorkerOptions options);

}  // namespace evermoe
