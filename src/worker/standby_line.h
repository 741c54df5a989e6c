// A standby's line to its agent, which gives it a role when this machine is to play one
// (control/agent/agent_standbys.h).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "control/wire/control_call.h"
#include "control/wire/control_messages.h"
#include "protection/snapshots/chunk.h"
#include "worker/worker.h"

namespace evermoe {

// What this process, as a joiner, has been given of a role: its state, whole (joiner_process.h).
struct GivenState {
  Rank role;
  View next;  // JoinerWanted::next
  std::vector<Chunk> chunks;
};

class StandbyLine final : private StreamEvents {
 public:
  using Order = std::variant<JoinerWanted, TakeRole, GivenState>;

  // Says hello. Where the agent is gone the process ends.
  explicit StandbyLine(const std::string& agent);
  ~StandbyLine() override;

  // To be called from one thread.
  void say(ControlMessage message);
  // An order of this process to itself. Any thread.
  void put(GivenState given);
  // Sleeps until there is an order. TakeRole is the last one: the worker has a line of its own
  // (control/wire/control_client.h), and that this one breaks means nothing any more.
  Order next_order();

 private:
  void on_envelope(StreamNumber, Envelope envelope) noexcept override;
  void on_broken(StreamNumber, const std::string& why) noexcept override;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Order> orders_ ABSL_GUARDED_BY(mutex_);
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;  // a role has been given
  std::unique_ptr<ControlCall> call_ ABSL_GUARDED_BY(mutex_);
};

// Where this process writes from now on; where that cannot be opened it goes on writing where it
// does.
void write_to(const std::string& log_path);

// Those of the worker that plays this role, which writes where the agent says from now on.
WorkerOptions options_with(const TakeRole& role, WorkerOptions options);

}  // namespace evermoe
