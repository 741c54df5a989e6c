// A worker's line to its agent, and through it to the controller.
//
//   ControlClient client(options);
//   Member member(..., client, ...);
//   client.attach({.describe = ..., .on_order = [&](auto order) {
//     member.receive(std::move(order)); }, ...});
//
// It registers the member with every controller that the agent finds, and says that the process is
// alive.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "control/wire/control_call.h"
#include "control/wire/control_messages.h"

namespace evermoe {

struct ControlClientOptions {
  std::string agent;  // where it listens
  Rank rank;
  View since;
};

// Called on threads of the library; must not block.
struct ControlHandlers {
  // What the member is at this moment; rank, since and node are filled in by others. No message of
  // it is sent meanwhile: what has happened is either in here or said later. It must not send
  // itself.
  std::function<MemberJoined()> describe;
  // MemberViews::entered_view(), and whether the training thread waits for others of its stage, for
  // signs of life.
  std::function<View()> entered = [] { return View(0); };
  std::function<bool()> waits = [] { return false; };
  // Member::take_step_times(), likewise.
  std::function<std::vector<StepTime>()> take_step_times = [] { return std::vector<StepTime>(); };
  // Member::take_link_times(), likewise.
  std::function<std::vector<LinkTime>()> take_link_times = [] { return std::vector<LinkTime>(); };
  // A controller of that term answers, perhaps another one than before.
  std::function<void(const FolderTerm&)> on_term = [](const FolderTerm&) {};
  // The member has been registered with another controller (Member::repeat_trouble).
  std::function<void()> on_registered = [] {};
  std::function<void(ControllerMessage)> on_order;
  // Its role is another process's, and this one becomes a standby.
  std::function<void(const BecomeStandby&)> on_relieved = [](const BecomeStandby&) {};
  // The agent is gone. The process has to end: nobody can start a successor while it lives.
  std::function<void(const std::string& why)> on_lost;
};

class ControlClient final : public ControlLink, private StreamEvents {
 public:
  explicit ControlClient(ControlClientOptions options);
  ~ControlClient() override;

  // Once, and before any report(). What was sent before is lost: nobody knew this member.
  void attach(ControlHandlers handlers, absl::Duration heartbeat);

  // The member will be gone soon: when it returns none of its handlers runs, and none is called any
  // more, but for what people are told nothing changes. Not from inside a handler.
  void detach();

  // What people are told of this worker. Any thread; never blocks. A process that fails before it
  // is a member says so too.
  void report(WorkerReport report);
  // Detaches and ends the line. Everything sent before has been read by the agent then, if that is
  // there.
  void close();

  // Any thread; never blocks. An agent that does not read kOutboxMax messages is a CHECK.
  void send(MemberMessage message) override;

 private:
  void on_envelope(StreamNumber, Envelope envelope) noexcept override;
  void on_broken(StreamNumber, const std::string& why) noexcept override;
  void register_member() ABSL_EXCLUSIVE_LOCKS_REQUIRED(handling_);
  void beat(absl::Duration heartbeat);
  std::optional<MemberAlive> sign_of_life();
  void stop_beating();
  // Events of the call wait until it is there.
  void open_line() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void put(ControlMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ControlClientOptions options_;
  Mutex handling_;  // held while a handler runs; locked before mutex_
  bool has_member_ ABSL_GUARDED_BY(handling_) = false;
  ControlHandlers handlers_ ABSL_GUARDED_BY(handling_);

  Mutex mutex_;
  CondVar stopping_changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ControlCall> call_ ABSL_GUARDED_BY(mutex_);

  std::thread heart_;
};

}  // namespace evermoe
