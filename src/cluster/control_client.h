// A worker's line to its agent, and through it to the controller.
//
//   ControlClient client(options);
//   Member member(..., client, ...);
//   client.attach({.describe = ..., .on_order = [&](auto order) { member.receive(std::move(order)); }, ...});
//
// It registers the member with every controller that the agent finds, and says that the process is alive.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/control_call.h"
#include "cluster/control_messages.h"

namespace evermoe {

struct ControlClientOptions {
  std::string agent;  // where it listens
  Rank rank;
  View since;
  absl::Duration heartbeat = absl::Milliseconds(500);
};

// Called on threads of the library; must not block.
struct ControlHandlers {
  // What the member is at this moment; rank, since and node are filled in by others. No message of it is
  // sent meanwhile: what has happened is either in here or said later. It must not send itself.
  std::function<MemberJoined()> describe;
  // MemberViews::entered_view(), for signs of life.
  std::function<View()> entered = [] { return View(0); };
  // The member has been registered with another controller (Member::repeat_trouble).
  std::function<void()> on_registered = [] {};
  std::function<void(ControllerMessage)> on_order;
  // The agent is gone. The process has to end: nobody can start a successor while it lives.
  std::function<void(const std::string& why)> on_lost;
};

class ControlClient final : public ControlLink, private StreamEvents {
 public:
  explicit ControlClient(ControlClientOptions options);
  ~ControlClient() override;

  // Once. What was sent before is lost: nobody knew this member.
  void attach(ControlHandlers handlers);

  // Any thread; never blocks. An agent that does not read kOutboxMax messages is a CHECK.
  void send(MemberMessage message) override;

 private:
  void on_envelope(StreamNumber, Envelope envelope) override;
  void on_broken(StreamNumber, const std::string& why) override;
  void register_member();
  void beat();
  void put(ControlMessage message);

  const ControlClientOptions options_;
  ControlHandlers handlers_;  // constant once attached

  std::mutex mutex_;  // guards what follows
  std::condition_variable stopping_changed_;
  bool stopping_ = false;
  std::unique_ptr<ControlCall> call_;

  std::thread heart_;
};

}  // namespace evermoe
