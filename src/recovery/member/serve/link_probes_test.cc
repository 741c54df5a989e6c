#include "recovery/member/serve/link_probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <tuple>

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ProbesClock final : public Clock {
 public:
  absl::Duration now() override { return now_; }
  void sleep_until(absl::Duration deadline) override { now_ = deadline; }
  absl::Duration thread_time() override { return {}; }
  absl::Time wall_now() override { return absl::UnixEpoch() + now_; }
  void pass(absl::Duration time) { now_ += time; }

 private:
  absl::Duration now_ = absl::Seconds(100);
};

// Messages take `trip` to and from each rank, and a large one `bulk` more, there.
class LinkProbesTest : public testing::Test {
 protected:
  struct Message {
    Rank to;
    MessageKind kind;
    MessageBytes bytes;
  };
  static ServiceMessage arrived(Rank from, const Message& message) {
    ServiceMessage service{from, Tag{View(0), kServiceGroup, static_cast<uint32_t>(message.kind)},
                           message.bytes.size(),
                           std::make_unique<std::byte[]>(message.bytes.size())};
    std::memcpy(service.bytes.get(), message.bytes.data(), message.bytes.size());
    return service;
  }
  // What the other one answers arrives.
  void answer(absl::Duration trip, absl::Duration bulk) {
    ASSERT_FALSE(out_.empty());
    const Message probe = std::exchange(out_, {}).back();
    ASSERT_EQ(probe.kind, MessageKind::kProbe);
    clock_.pass(2 * trip + (probe.bytes.size() > 8 ? bulk : absl::ZeroDuration()));
    const auto number = decode_probe(probe.bytes);
    ASSERT_TRUE(number.ok());
    const Message echo{Rank(0), MessageKind::kEcho, encode_probe(*number)};
    EXPECT_TRUE(probes_.on_message(arrived(probe.to, echo)).ok());
  }
  // The longest pause goes by, one and a half seconds, in which ranks are sent something.
  void send_for_a_pause(const std::vector<int>& ranks, int messages = 15) {
    for (const int rank : ranks) {
      for (int i = 0; i < messages; ++i) sent_->add(Rank(rank), options_.bulk_bytes / 2);
    }
    clock_.pass(1.5 * options_.pause);
  }
  void measure(absl::Duration trip, absl::Duration bulk = absl::ZeroDuration()) {
    probes_.work();
    answer(trip, bulk);
    answer(trip, bulk);
  }

  ProbesClock clock_;
  ProbeOptions options_;
  std::shared_ptr<SentTraffic> sent_ = std::make_shared<SentTraffic>();
  std::vector<Message> out_;
  LinkProbes probes_{clock_, sent_, [this](Rank to, MessageKind kind, MessageBytes bytes) {
                       out_.push_back({to, kind, std::move(bytes)});
                     }};
};

TEST_F(LinkProbesTest, AnEmptyMessageAndALargeOneAreTimed) {
  sent_->add(Rank(3), 1);
  probes_.work();
  EXPECT_THAT(out_, IsEmpty()) << "from now on what is sent counts";
  send_for_a_pause({3});
  measure(absl::Milliseconds(1), absl::Milliseconds(5));
  const std::vector<LinkTime> times = probes_.take();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].to, Rank(3));
  EXPECT_EQ(times[0].round_trip, absl::Milliseconds(2));
  EXPECT_EQ(times[0].bulk, absl::Milliseconds(7));
  EXPECT_NEAR(times[0].messages, 10, 0.2);
  EXPECT_NEAR(times[0].bulks, 5, 0.1);
  EXPECT_THAT(probes_.take(), IsEmpty());
}

TEST_F(LinkProbesTest, ProbesOfOthersAreAnsweredAtOnce) {
  const Message probe{Rank(0), MessageKind::kProbe, encode_probe(77, 5000)};
  EXPECT_TRUE(probes_.on_message(arrived(Rank(2), probe)).ok());
  ASSERT_EQ(out_.size(), 1u);
  EXPECT_EQ(out_[0].to, Rank(2));
  EXPECT_EQ(out_[0].kind, MessageKind::kEcho);
  EXPECT_EQ(decode_probe(out_[0].bytes).value(), 77u);
  EXPECT_EQ(out_[0].bytes.size(), sizeof(uint64_t));
  EXPECT_FALSE(probes_.on_message(arrived(Rank(2), {Rank(0), MessageKind::kProbe, {}})).ok());
}

TEST_F(LinkProbesTest, AllToWhomAnythingIsSentTakeTurns) {
  sent_->add(Rank(1), 1), sent_->add(Rank(2), 1), sent_->add(Rank(3), 1);
  probes_.work();
  std::vector<int> measured;
  for (int turn = 0; turn < 6; ++turn) {
    send_for_a_pause({1, 2, 3});
    measure(absl::Milliseconds(1));
    measured.push_back(probes_.take()[0].to.value);
  }
  EXPECT_THAT(measured, ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST_F(LinkProbesTest, ToWhomNothingIsSentNothingIsMeasured) {
  sent_->add(Rank(1), 1);
  probes_.work();
  send_for_a_pause({1});
  measure(absl::Milliseconds(1));
  clock_.pass(absl::Seconds(10));
  probes_.work();
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(LinkProbesTest, WhoDoesNotAnswerIsLeftAloneForAWhile) {
  sent_->add(Rank(1), 1), sent_->add(Rank(2), 1);
  probes_.work();
  send_for_a_pause({1, 2});
  probes_.work();
  ASSERT_EQ(out_.size(), 1u);
  const Message unanswered = out_.back();
  EXPECT_EQ(unanswered.to, Rank(1));
  clock_.pass(options_.answer_max);
  measure(absl::Milliseconds(1));
  EXPECT_EQ(probes_.take()[0].to, Rank(2));
  const Message late{Rank(0), MessageKind::kEcho, encode_probe(1)};
  EXPECT_TRUE(probes_.on_message(arrived(Rank(1), late)).ok());
  EXPECT_THAT(probes_.take(), IsEmpty());
  for (int turn = 0; turn < 30; ++turn) {
    send_for_a_pause({1, 2});
    measure(absl::Milliseconds(1));
    EXPECT_EQ(probes_.take()[0].to, Rank(2));
  }
  clock_.pass(absl::Seconds(20));
  send_for_a_pause({1});
  measure(absl::Milliseconds(1));
  EXPECT_EQ(probes_.take()[0].to, Rank(1));
}

TEST_F(LinkProbesTest, ASlowLinkIsMeasuredLessOften) {
  sent_->add(Rank(1), 1);
  probes_.work();
  send_for_a_pause({1});
  measure(absl::Milliseconds(1), absl::Milliseconds(398));
  // 25 times 400 ms, or half of it.
  for (int pauses = 0; pauses < 3; ++pauses) {
    send_for_a_pause({1});
    probes_.work();
    EXPECT_THAT(out_, IsEmpty()) << pauses;
  }
  for (int pauses = 3; pauses < 10; ++pauses) send_for_a_pause({1});
  measure(absl::Milliseconds(1));
}

// Steps of a third of a second would meet every probe of a second's pauses in the same place.
TEST_F(LinkProbesTest, ProbesDoNotFallIntoStepWithTheTraining) {
  constexpr int kParts = 4, kMeasurements = 40;
  std::array<int, kParts> in_part{};
  sent_->add(Rank(1), 1);
  probes_.work();
  for (int done = 0; done < kMeasurements;) {
    sent_->add(Rank(1), 1);
    clock_.pass(probes_.work());
    probes_.work();
    if (out_.empty()) continue;
    const double steps = absl::ToDoubleSeconds(clock_.now()) * 3;
    ++in_part[static_cast<size_t>(steps * kParts) % kParts];
    answer(absl::Microseconds(1), absl::ZeroDuration());
    answer(absl::Microseconds(1), absl::ZeroDuration());
    ++done;
  }
  for (const int probes : in_part) EXPECT_GE(probes, kMeasurements / kParts / 2);
}

TEST_F(LinkProbesTest, NoneAreSentWhereNoneAreWanted) {
  LinkProbes none(clock_, sent_, [](Rank, MessageKind, const MessageBytes&) { ADD_FAILURE(); },
                  {.pause = absl::InfiniteDuration()});
  for (int second = 0; second < 5; ++second) {
    EXPECT_EQ(none.work(), absl::InfiniteDuration());
    send_for_a_pause({1});
  }
}

TEST_F(LinkProbesTest, WhatNobodyTakesIsBounded) {
  sent_->add(Rank(1), 1);
  probes_.work();
  for (int turn = 0; turn < 100; ++turn) {
    send_for_a_pause({1});
    measure(absl::Microseconds(turn));
  }
  const std::vector<LinkTime> times = probes_.take();
  ASSERT_EQ(times.size(), kLinkTimesMax);
  EXPECT_EQ(times.back().round_trip, absl::Microseconds(198));
}

}  // namespace
}  // namespace evermoe
