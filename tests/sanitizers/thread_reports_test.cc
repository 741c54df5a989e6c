// Races made on purpose, each in a process of its own, that ThreadSanitizer must report in spite of
// what thread.txt suppresses.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

#include "control/wire/control_call.h"
#include "control/wire/control_listener.h"
#include "control/wire/private_folder.h"

namespace evermoe {
namespace {

constexpr int kRaceReported = 66;  // ThreadSanitizer's exit code

// Two threads that run one after the other, without anything that says so to the sanitizer.
class Turn {
 public:
  void give() { given_.fetch_add(1, std::memory_order_relaxed); }
  // The `count`-th.
  void take(int count = 1) const {
    while (given_.load(std::memory_order_relaxed) < count) {
    }
  }

 private:
  std::atomic<int> given_{0};
};

// Notes what it hears as if its caller's thread were the only one.
class CarelessEvents final : public StreamEvents {
 public:
  void on_envelope(StreamNumber, Envelope) noexcept override {
    ++heard_;
    turn_.give();
  }
  void on_broken(StreamNumber, const std::string&) noexcept override {}
  int heard(int count) const {
    turn_.take(count);
    return heard_;
  }

 private:
  int heard_ = 0;
  Turn turn_;
};

[[noreturn]] void race_with_a_thread_of_grpc() {
  CarelessEvents server, client;
  const auto folder = PrivateFolder::make().value();
  const auto listener = ControlListener::start(folder->address("controller"), server);
  ControlCall call((*listener)->address(), StreamNumber(1), client);
  // Often enough: where the caller is interrupted, a lock that both take may order them by chance.
  int heard = 0;
  for (int count = 1; count <= 20; ++count) {
    call.send({0, JobEvent{"hello"}});
    heard = server.heard(count);
  }
  std::exit(heard == 20 ? 0 : 1);
}

[[noreturn]] void race_for_a_number() {
  int number = 0;
  Turn turn;
  std::thread other([&] {
    number = 3;
    turn.give();
  });
  turn.take();
  const int seen = number;
  other.join();
  std::exit(seen == 3 ? 0 : 1);
}

// thread.txt leaves out what tests whether a std::function is empty; calling one does more than that.
[[noreturn]] void race_for_a_function() {
  std::function<int()> function = [] { return 1; };
  Turn turn;
  std::thread other([&] {
    function = [] { return 3; };
    turn.give();
  });
  turn.take();
  const int seen = function();
  other.join();
  std::exit(seen == 3 ? 0 : 1);
}

const testing::ExitedWithCode kReported(kRaceReported);

// In a process of their own from its start: forked from one with threads, a child cannot start any.
class ThreadReportsDeathTest : public testing::Test {
 protected:
  ThreadReportsDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ThreadReportsDeathTest, ANumberIsWrittenByOneThreadAndReadByAnother) {
  EXPECT_EXIT(race_for_a_number(), kReported, "data race.*race_for_a_number");
}
TEST_F(ThreadReportsDeathTest, AFunctionIsAssignedByOneThreadAndCalledByAnother) {
  EXPECT_EXIT(race_for_a_function(), kReported, "data race.*race_for_a_function");
}
TEST_F(ThreadReportsDeathTest, AThreadOfGrpcCallsBackAndTheCallerReads) {
  EXPECT_EXIT(race_with_a_thread_of_grpc(), kReported, "data race.*on_envelope");
}

}  // namespace
}  // namespace evermoe
