// What is handed over to a joiner, whose part the test plays: what if it does not arrive.
#include "recovery/member/serve/joiner_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "comm/simulated/network_clock.h"
#include "comm/simulated/simulated_network.h"
#include "comm/transport/seated_transport.h"
#include "protection/snapshots/chunk_testing.h"
#include "recovery/rank_parts_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr SlotTime kWhole{Step(0), kWholeState};

// The only role of a job is told to leave, and gives the state at step 0.
class JoinerMemoryTest : public testing::Test {
 protected:
  JoinerMemoryTest() { configure_log("test", LogLevel::kError); }

  // What the role has told in the 5 s after it began to give its state and did `then`.
  std::vector<CannotLeave> hand_over(
      const std::function<void(Transport&)>& joiner,
      const std::function<void(RankParts&)>& then = [](RankParts&) {}) {
    const Topology topology({1}, 1);
    SimulatedNetwork network(seats_of_job(1), {.time_max = absl::Minutes(1)});
    NetworkClock clock(network);
    std::unique_ptr<RankParts> parts;
    std::vector<PeerAddress> table(1);
    PeerAddress seat;
    std::vector<CannotLeave> told;
    const auto of = [&](Transport& transport) -> RankParts& {
      if (parts == nullptr)
        parts = std::make_unique<RankParts>(topology, transport, TallyTrainer::Options{}, 1 << 30,
                                            clock);
      return *parts;
    };
    int running = 2;
    const auto leave = [&] {
      if (--running == 0) parts.reset();
    };
    const ProcessNumber first =
        network.start(Rank(0), View(1),
                      {[&](Transport& transport) {
                         RankParts& rank = of(transport);
                         begin(rank, PlanOf(1).at(table), seat);
                         network.pause(absl::Milliseconds(10));
                         EXPECT_THAT(rank.told.all<CopiesGiven>(), SizeIs(1));
                         give_state(rank);
                         then(rank);
                         network.pause(absl::Seconds(5));
                         told = rank.told.all<CannotLeave>();
                         rank.end();
                         leave();
                       },
                       [&](Transport& transport) {
                         EXPECT_TRUE(of(transport).service.run().ok());
                         leave();
                       }});
    const ProcessNumber second = network.start(
        other_process(Rank(0), 1), View(1), {[&](Transport& transport) {
          ASSERT_TRUE(transport.set_peers(with_others(table, transport.size(), {})).ok());
          joiner(transport);
          network.pause(absl::Seconds(5));
          transport.close();
        }});
    table[0] = {SimulatedNetwork::address(first), View(1)};
    seat = {SimulatedNetwork::address(second), View(1)};
    EXPECT_TRUE(network.run()) << network.waiting();
    return told;
  }
  static void begin(RankParts& rank, const PlanOf& plan, const PeerAddress& seat) {
    rank.begin_run(1);
    ASSERT_TRUE(rank.enter(plan).ok());
    rank.order(LeaveOrder{View(1), seat, Step(0)});
  }
  static void give_state(RankParts& rank) {
    ASSERT_TRUE(rank.copies.capture_whole(Step(0), rank.window.position()).ok());
    ASSERT_TRUE(rank.copies.wait_captured().ok());
  }
  // A chunk of another role's copy. True if the slot is there with it.
  static bool comes(RankParts& rank, int slot, int number = 0, int chunks = 1) {
    const Chunk chunk = filled_chunk({.owner = Rank(1),
                                      .window = Step(0),
                                      .slot = slot,
                                      .slots = 4,
                                      .chunk = number,
                                      .chunks = chunks,
                                      .operator_index = 0,
                                      .size = 8});
    ServiceMessage message;
    message.from = Rank(0);
    message.tag = {View(1), kServiceGroup, static_cast<uint32_t>(MessageKind::kChunk)};
    message.size = chunk.block().size();
    message.bytes = std::make_unique<std::byte[]>(message.size);
    std::ranges::copy(chunk.block(), message.bytes.get());
    EXPECT_TRUE(rank.answers.on_message(std::move(message), View(1)).ok());
    return rank.memory.store.has_slot(Rank(1), {Step(0), slot});
  }
  static Chunk read_chunk(const ServiceMessage& message) {
    std::shared_ptr<std::byte[]> bytes(new std::byte[message.size]);
    std::ranges::copy(message.span(), bytes.get());
    return Chunk::from_block(std::move(bytes), message.size).value();
  }
  static void answer(Transport& transport, MessageKind kind, std::span<const std::byte> bytes) {
    auto sent =
        transport.start_send(Rank(0), {View(1), kServiceGroup, static_cast<uint32_t>(kind)}, bytes);
    EXPECT_TRUE(transport.wait(std::move(sent), absl::Seconds(1)).ok());
  }
};

TEST_F(JoinerMemoryTest, WhatArrivesIsNoNews) {
  EXPECT_THAT(hand_over([](Transport& joiner) {
                EXPECT_TRUE(joiner.receive_service_message(absl::Seconds(1)).ok());
                answer(joiner, MessageKind::kAcknowledge, encode(SlotMessage{Rank(0), kWhole}));
              }),
              IsEmpty());
}

TEST_F(JoinerMemoryTest, WhatIsLostOnTheWayIsToldAtOnce) {
  const auto told = hand_over([](Transport& joiner) {
    EXPECT_TRUE(joiner.receive_service_message(absl::Seconds(1)).ok());
    for (int again = 0; again < 2; ++again)
      answer(joiner, MessageKind::kWantSlot, encode(WantedSlot{{Rank(0), kWhole}, {}, {}}));
    answer(joiner, MessageKind::kAcknowledge, encode(SlotMessage{Rank(0), kWhole}));
  });
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].why, CannotLeave::Why::kNotTaken);
}

// A state that was given ahead, where what else there is leads to it.
TEST_F(JoinerMemoryTest, WhatARoleThatStandsDoesWithoutIsNotMissed) {
  const auto lacks_the_state = [](Transport& joiner) {
    while (joiner.receive_service_message(absl::Milliseconds(100)).ok()) {
    }
    answer(joiner, MessageKind::kWantSlot, encode(WantedSlot{{Rank(0), kWhole}, {}, {}}));
  };
  const auto stands = [](RankParts& rank) {
    rank.joiner.give_only([](SlotTime time) { return !is_of_hand_over(time); });
    rank.sender.wake_service();
  };
  EXPECT_THAT(hand_over(lacks_the_state, stands), IsEmpty());
}

TEST_F(JoinerMemoryTest, AJoinerThatIsSilentIsToldAfterAWhile) {
  const auto told = hand_over([](Transport&) {});
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].why, CannotLeave::Why::kNotTaken);
  EXPECT_EQ(told[0].view, View(1));
}

// What the joiner lacks then it asks for: a slot of which chunks are still to come, twice.
TEST_F(JoinerMemoryTest, ACopyThatHasComeIsOfferedBehindItsChunks) {
  std::vector<MessageKind> heard;
  const auto note = [&heard](Transport& joiner) {
    while (true) {
      const auto message = joiner.receive_service_message(absl::Milliseconds(500));
      if (!message.ok()) return;
      const auto kind = static_cast<MessageKind>(message->tag.purpose);
      const bool is_own =
          kind == MessageKind::kChunk && read_chunk(*message).header().owner == Rank(0);
      if (!is_own) heard.push_back(kind);
    }
  };
  hand_over(note, [](RankParts& rank) {
    for (int chunk = 0; chunk < 3; ++chunk) comes(rank, 0, chunk, 3);
    rank.sender.wake_service();
  });
  EXPECT_THAT(heard, ElementsAre(MessageKind::kChunk, MessageKind::kChunk, MessageKind::kChunk,
                                 MessageKind::kOffer));
}

// The process ends with the switch, and what it keeps of others with it.
TEST_F(JoinerMemoryTest, ARoleThatStandsKeepsNothingMoreOfOthers) {
  hand_over([](Transport&) {},
            [&](RankParts& rank) {
              EXPECT_TRUE(comes(rank, 0));
              rank.joiner.give_only(is_of_hand_over);
              rank.sender.wake_service();
              EXPECT_TRUE(
                  rank.copies
                      .wait_until([&] { return rank.joiner.gives_only_own(); }, [] { return true; })
                      .ok());
              EXPECT_FALSE(comes(rank, 1));
              rank.order(LeaveOrder{.view = View(1), .is_off = true});
              EXPECT_TRUE(rank.copies
                              .wait_until([&] { return !rank.joiner.gives_only_own(); },
                                          [] { return true; })
                              .ok());
              EXPECT_TRUE(comes(rank, 2)) << "it stays";
            });
}

}  // namespace
}  // namespace evermoe
