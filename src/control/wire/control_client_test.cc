// A worker's line at the end of its member.
#include "control/wire/control_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include "control/wire/control_listener.h"
#include "control/wire/private_folder.h"

namespace evermoe {
namespace {

// An agent that knows one worker.
class TestAgent final : public StreamEvents {
 public:
  TestAgent() : listener_(*ControlListener::start(folder_->address("agent"), *this)) {}
  const std::string& address() const { return listener_->address(); }
  void order() {
    listener_->send(attached_.get_future().get(), {0, SendOrder{Rank(0), View(1), ReleaseOrder{}}});
  }
  std::future<WorkerReport> report() { return reported_.get_future(); }
  int beats() const { return beats_; }

 private:
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override {
    if (std::holds_alternative<WorkerHello>(envelope.message)) attached_.set_value(stream);
    if (std::holds_alternative<MemberAlive>(envelope.message)) ++beats_;
    if (const auto* const report = std::get_if<WorkerReport>(&envelope.message))
      reported_.set_value(*report);
  }
  void on_broken(StreamNumber, const std::string&) noexcept override {}

  std::promise<StreamNumber> attached_;
  std::promise<WorkerReport> reported_;
  std::atomic<int> beats_ = 0;
  const std::unique_ptr<PrivateFolder> folder_ = *PrivateFolder::make();
  std::unique_ptr<ControlListener> listener_;
};

// An order is on its way into the member while that ends, held there as by a debugger.
TEST(ControlClient, DetachWaitsForAHandlerThatRuns) {
  TestAgent agent;
  ControlClient client({agent.address(), Rank(0), View(1)});
  std::promise<void> inside, let_go;
  std::atomic<bool> is_member_alive = true, was_alive = false;
  ControlHandlers handlers;
  handlers.describe = [] { return MemberJoined(); };
  handlers.on_order = [&](ControllerMessage) {
    inside.set_value();
    let_go.get_future().wait();
    was_alive = is_member_alive.load();
  };
  handlers.on_lost = [](const std::string&) {};
  client.attach(std::move(handlers), absl::Milliseconds(1));
  agent.order();
  inside.get_future().wait();
  std::future<void> end = std::async(std::launch::async, [&] {
    client.detach();
    is_member_alive = false;
  });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  let_go.set_value();
  end.get();
  EXPECT_TRUE(was_alive);
}

TEST(ControlClient, AfterDetachNoHandlerIsCalledAndPeopleAreStillTold) {
  TestAgent agent;
  ControlClient client({agent.address(), Rank(0), View(1)});
  std::atomic<bool> is_member_alive = true, was_called_late = false;
  const auto note = [&] { was_called_late = was_called_late || !is_member_alive; };
  ControlHandlers handlers;
  handlers.describe = [&] { return note(), MemberJoined(); };
  handlers.entered = [&] { return note(), View(0); };
  handlers.on_order = [&](ControllerMessage) { note(); };
  handlers.on_lost = [&](const std::string&) { note(); };
  client.attach(std::move(handlers), absl::Milliseconds(1));
  while (agent.beats() == 0) std::this_thread::yield();
  client.detach();
  is_member_alive = false;
  agent.order();
  client.report({.kind = WorkerReport::Kind::kFinished, .step = Step(7)});
  EXPECT_EQ(agent.report().get().step, Step(7));
  client.close();
  EXPECT_FALSE(was_called_late);
}

void run_a_member_that_throws() {
  TestAgent agent;
  ControlClient client({agent.address(), Rank(0), View(1)});
  ControlHandlers handlers;
  handlers.on_order = [](ControllerMessage) { throw std::runtime_error("no such kernel"); };
  handlers.on_lost = [](const std::string&) {};
  client.attach(std::move(handlers), absl::Milliseconds(1));
  agent.order();
  std::promise<void> never;
  never.get_future().wait_for(std::chrono::seconds(10));
}

TEST(ControlClientDeathTest, WhatAHandlerThrowsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run_a_member_that_throws(), "no such kernel");
}

}  // namespace
}  // namespace evermoe
