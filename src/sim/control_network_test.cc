// The simulated network of the control plane keeps its promises.
#include "sim/control_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

// A process that writes down what it hears; a word is the life of a Welcome.
class Listener final : public StreamEvents {
 public:
  explicit Listener(SimulatedNetwork& time) : time_(time) {}
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override {
    stream_ = stream;
    heard_at_ = time_.now();
    heard_.push_back(absl::StrCat(std::get<Welcome>(envelope.message).life));
  }
  void on_broken(StreamNumber, const std::string&) noexcept override {
    broken_at_ = time_.now();
    heard_.push_back("broken");
  }
  std::string heard() const { return absl::StrJoin(heard_, " "); }

  SimulatedNetwork& time_;
  StreamNumber stream_;
  absl::Duration heard_at_, broken_at_;
  std::vector<std::string> heard_;
};

class ControlNetworkTest : public testing::Test {
 protected:
  static constexpr Machine kHere{0}, kThere{1};

  ControlNetworkTest() {
    server_process_ = network_.begin(kThere, server_);
    network_.listen(server_process_, "there");
    client_process_ = network_.begin(kHere, client_);
    call_ = network_.call(client_process_, "there");
  }
  void say(int64_t first, int64_t last) {
    for (int64_t word = first; word <= last; ++word)
      network_.send(client_process_, call_, {0, Welcome{word}});
  }
  void at(double milliseconds, std::function<void()> what) {
    time_.after(absl::Milliseconds(milliseconds), std::move(what));
  }
  static SimulatedNetworkOptions seeded() {
    SimulatedNetworkOptions options;
    options.seed = 3;
    return options;
  }

  SimulatedNetwork time_{1, seeded()};
  ControlNetwork network_{time_, {.one_call_fails_in = 0}};
  Listener server_{time_}, client_{time_};
  ControlProcess server_process_, client_process_;
  StreamNumber call_;
};

TEST_F(ControlNetworkTest, EverythingComesOnceAndInOrder) {
  say(1, 5);
  at(20, [&] { say(6, 9); });
  at(40, [&] { network_.send(server_process_, server_.stream_, {0, Welcome{77}}); });
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(server_.heard(), "1 2 3 4 5 6 7 8 9");
  EXPECT_EQ(client_.heard(), "77");
}

TEST_F(ControlNetworkTest, AKilledProcessIsNoticedAndItsLastWordsMayBeLost) {
  at(20, [&] {
    say(1, 50);
    network_.end(client_process_);
  });
  ASSERT_TRUE(time_.run());
  EXPECT_THAT(server_.heard(), HasSubstr("broken"));
  EXPECT_EQ(static_cast<int64_t>(server_.heard_.size()) + network_.envelopes_lost(), 51);
  EXPECT_EQ(server_.heard_.back(), "broken");
  EXPECT_LE(server_.broken_at_, absl::Milliseconds(27));
}

TEST_F(ControlNetworkTest, WhereNobodyListensACallFails) {
  network_.end(server_process_);
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(client_.heard(), "broken");
}

// As where two hosts have a job: the address leads to whichever is left.
TEST_F(ControlNetworkTest, OfSeveralListenersTheNewestThatLivesAnswers) {
  Listener other(time_);
  const ControlProcess newer = network_.begin(kThere, other);
  network_.listen(newer, "there");
  at(10, [&] {
    network_.send(client_process_, network_.call(client_process_, "there"), {0, Welcome{1}});
  });
  at(100, [&] { network_.end(newer); });
  at(110, [&] {
    network_.send(client_process_, network_.call(client_process_, "there"), {0, Welcome{2}});
  });
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(other.heard(), "1");
  EXPECT_EQ(server_.heard(), "2");
}

TEST_F(ControlNetworkTest, APartitionHoldsEverythingBackAndNothingIsLost) {
  say(1, 2);
  at(20, [&] {
    network_.block(kHere, kThere, absl::Seconds(4));
    network_.block(kThere, kHere, absl::Seconds(4));
    say(3, 4);
    network_.send(server_process_, server_.stream_, {0, Welcome{77}});
  });
  at(100, [&] { EXPECT_EQ(server_.heard(), "1 2"); });
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(server_.heard(), "1 2 3 4");
  EXPECT_EQ(client_.heard(), "77");
  EXPECT_GE(server_.heard_at_, absl::Milliseconds(4020));
}

TEST_F(ControlNetworkTest, OneDirectionMayBeBlockedAlone) {
  say(1, 1);
  at(20, [&] {
    network_.block(kHere, kThere, absl::Seconds(4));
    say(2, 2);
    network_.send(server_process_, server_.stream_, {0, Welcome{77}});
  });
  at(100, [&] { EXPECT_EQ(server_.heard() + "/" + client_.heard(), "1/77"); });
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(server_.heard(), "1 2");
}

TEST_F(ControlNetworkTest, ADeathBehindAPartitionIsNoticedWhenItHeals) {
  say(1, 1);
  at(20, [&] {
    network_.block(kHere, kThere, absl::Seconds(4));
    network_.end(client_process_);
  });
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(server_.heard(), "1 broken");
  EXPECT_GE(server_.broken_at_, absl::Milliseconds(4020));
}

TEST_F(ControlNetworkTest, ACallThroughAPartitionConnectsWhenItHeals) {
  network_.block(kThere, kHere, absl::Seconds(4));
  say(1, 2);
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(server_.heard(), "1 2");
  EXPECT_GE(server_.heard_at_, absl::Seconds(4));
}

TEST_F(ControlNetworkTest, OneEndOfABrokenStreamMayNoticeLate) {
  say(1, 1);
  at(20, [&] { network_.break_streams(kHere, kThere, absl::Seconds(2)); });
  at(40, [&] {
    EXPECT_EQ(client_.heard(), "broken");
    network_.send(server_process_, server_.stream_, {0, Welcome{77}});
    call_ = network_.call(client_process_, "there");
    say(2, 2);
  });
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(client_.heard(), "broken") << "what the late one sends is lost";
  EXPECT_EQ(server_.heard(), "1 2 broken")
      << "it hears of the new stream before it knows of the old one";
  EXPECT_GE(server_.broken_at_, absl::Milliseconds(2020));
}

TEST_F(ControlNetworkTest, AStoppedProcessHearsAllOfItAfterwards) {
  int ticks = 0;
  network_.after(server_process_, absl::Milliseconds(30), [&] { ++ticks; });
  at(20, [&] {
    network_.stop(server_process_);
    say(1, 3);
  });
  at(500, [&] {
    EXPECT_EQ(server_.heard(), "");
    EXPECT_EQ(ticks, 0);
    network_.go_on(server_process_);
  });
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(server_.heard(), "1 2 3");
  EXPECT_EQ(ticks, 1);
}

TEST_F(ControlNetworkTest, WhoClosesAStreamHearsNothingMore) {
  say(1, 1);
  at(20, [&] {
    network_.send(server_process_, server_.stream_, {0, Welcome{77}});
    network_.close(client_process_, call_);
  });
  ASSERT_TRUE(time_.run());
  EXPECT_EQ(client_.heard(), "");
  EXPECT_EQ(server_.heard(), "1 broken");
}

}  // namespace
}  // namespace evermoe
