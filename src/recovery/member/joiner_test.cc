#include "recovery/member/joiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "comm/simulated/simulated_network.h"
#include "comm/transport/seated_transport.h"
#include "protection/snapshots/chunk_testing.h"
#include "recovery/protocol/member_messages.h"

namespace evermoe {
namespace {

using testing::ElementsAre;

constexpr int kRolesOfJob = 2;
constexpr int64_t kChunkSize = 40;

// Chunk `chunk` of two of a slot.
Chunk half_of(Rank owner, SlotTime time, int chunk) {
  return filled_chunk({.owner = owner,
                       .window = time.window,
                       .slot = time.slot,
                       .slots = 2,
                       .chunk = chunk,
                       .chunks = 2,
                       .operator_index = 0,
                       .size = kChunkSize},
                      std::byte(7 + chunk));
}

// Role 0's present process, whose part the test plays, its joiner, and another role's processes.
class JoinerTest : public testing::Test {
 protected:
  using Body = std::function<void(Transport&)>;

  // What the joiner has in the end. Its seat is told to stop when the leaver has returned.
  std::vector<Chunk> run(
      const Body& leaver, const Body& other = [](Transport&) {}) {
    SimulatedNetwork network(seats_of_job(kRolesOfJob), {.time_max = absl::Minutes(1)});
    std::vector<PeerAddress> table(kRolesOfJob);
    PeerAddress joiner_address;
    std::vector<Chunk> chunks;
    Joiner* joiner = nullptr;
    const auto play = [&](const Body& body) {
      return [&, body](Transport& inner) {
        SeatedTransport transport(inner);
        std::vector<PeerAddress> players = table;
        std::map<Rank, PeerAddress> others = {{Rank(0), joiner_address}};
        if (inner.rank() == other_process(Rank(1), kRolesOfJob))
          others[Rank(1)] = std::exchange(players[1], {});
        ASSERT_TRUE(transport.set_peers(with_others(players, transport.size(), others)).ok());
        body(transport);
        network.pause(absl::Milliseconds(100));
        transport.close();
      };
    };
    const ProcessNumber waiting = network.start(
        other_process(Rank(0), kRolesOfJob), View(2), {[&](Transport& inner) {
          SeatedTransport transport(inner);
          Joiner own(Rank(0), table[0], transport, bytes_max_,
                     [this](std::vector<Chunk> whole) { whole_.push_back(std::move(whole)); });
          joiner = &own;
          EXPECT_TRUE(own.serve().ok());
          chunks = own.take();
          joiner = nullptr;
          for (int32_t i = 0; i < transport.size(); ++i)
            connected_.push_back(transport.is_connected(Rank(i), Traffic::kMessages));
          transport.close();
        }});
    const ProcessNumber first = network.start(Rank(0), View(1), {play(leaver)});
    const ProcessNumber second = network.start(Rank(1), View(1), {play(other)});
    const ProcessNumber others_joiner =
        network.start(other_process(Rank(1), kRolesOfJob), View(2), {play([](Transport&) {})});
    table = {{seated_address(0, SimulatedNetwork::address(first)), View(1)},
             {seated_address(0, SimulatedNetwork::address(second)), View(1)}};
    joiner_address = {seated_address(1, SimulatedNetwork::address(waiting)), View(2)};
    addresses_ = table;
    others_joiner_ = {seated_address(1, SimulatedNetwork::address(others_joiner)), View(2)};
    network.on_end(first, [&] {
      if (joiner != nullptr) joiner->stop_soon();
      network.deliver(waiting, {View(0), kServiceGroup, static_cast<uint32_t>(MessageKind::kWake)},
                      {});
    });
    EXPECT_TRUE(network.run()) << network.waiting();
    return chunks;
  }

  static void send(Transport& transport, MessageKind kind, std::span<const std::byte> bytes) {
    auto sent = transport.start_send(other_process(Rank(0), kRolesOfJob),
                                     {View(1), kServiceGroup, static_cast<uint32_t>(kind)}, bytes);
    EXPECT_TRUE(transport.wait(std::move(sent), absl::Seconds(1)).ok());
  }
  static void send(Transport& transport, const Chunk& chunk) {
    send(transport, MessageKind::kChunk, chunk.block());
  }
  static void offer(Transport& transport, Rank owner, SlotTime time) {
    send(transport, MessageKind::kOffer, encode(SlotMessage{owner, time}));
  }
  // The next thing that the joiner says.
  static MessageKind hear(Transport& transport, MessageBytes& bytes) {
    auto message = transport.receive_service_message(absl::Seconds(1));
    EXPECT_TRUE(message.ok()) << message.status();
    if (!message.ok()) return MessageKind::kWake;
    bytes.assign(message->span().begin(), message->span().end());
    return static_cast<MessageKind>(message->tag.purpose);
  }
  static void expect_acknowledged(Transport& transport, Rank owner, SlotTime time) {
    MessageBytes bytes;
    ASSERT_EQ(hear(transport, bytes), MessageKind::kAcknowledge);
    const auto slot = decode_slot_message(bytes);
    EXPECT_TRUE(slot.ok() && slot->owner == owner && slot->time == time);
  }

  int64_t bytes_max_ = 1 << 20;
  std::vector<std::vector<Chunk>> whole_;  // that the joiner was told of
  std::vector<PeerAddress> addresses_;     // of the two roles
  PeerAddress others_joiner_;              // of role 1
  std::vector<bool> connected_;            // with whom it was in the end, by rank
};

constexpr SlotTime kOneSlot{Step(8), 0};

TEST_F(JoinerTest, WantsWhatIsOfferedAndSaysWhenItHasIt) {
  const auto chunks = run([&](Transport& leaver) {
    offer(leaver, Rank(0), kOneSlot);
    MessageBytes bytes;
    ASSERT_EQ(hear(leaver, bytes), MessageKind::kWantSlot);
    EXPECT_TRUE(decode_wanted_slot(bytes)->have.empty());
    send(leaver, half_of(Rank(0), kOneSlot, 0));
    offer(leaver, Rank(0), kOneSlot);
    ASSERT_EQ(hear(leaver, bytes), MessageKind::kWantSlot);
    EXPECT_THAT(decode_wanted_slot(bytes)->have, ElementsAre(0));
    send(leaver, half_of(Rank(0), kOneSlot, 1));
    expect_acknowledged(leaver, Rank(0), kOneSlot);
    offer(leaver, Rank(0), kOneSlot);
    expect_acknowledged(leaver, Rank(0), kOneSlot);
  });
  EXPECT_EQ(chunks.size(), 2u);
}

TEST_F(JoinerTest, CopiesOfOthersAreGivenLikewise) {
  const auto chunks = run([&](Transport& leaver) {
    for (const int chunk : {0, 1}) send(leaver, half_of(Rank(1), kOneSlot, chunk));
    expect_acknowledged(leaver, Rank(1), kOneSlot);
  });
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].header().owner, Rank(1));
}

TEST_F(JoinerTest, TellsOfAStateThatIsThereWhole) {
  run([&](Transport& leaver) {
    send(leaver, half_of(Rank(0), {Step(9), kWholeState}, 0));
    for (const int chunk : {0, 1}) send(leaver, half_of(Rank(0), kOneSlot, chunk));
    expect_acknowledged(leaver, Rank(0), kOneSlot);
    EXPECT_TRUE(whole_.empty());
    send(leaver, half_of(Rank(0), {Step(9), kWholeState}, 1));
    expect_acknowledged(leaver, Rank(0), {Step(9), kWholeState});
  });
  ASSERT_EQ(whole_.size(), 1u);
  EXPECT_EQ(whole_[0].size(), 2u);
  EXPECT_EQ(whole_[0][0].header().window, Step(9));
}

TEST_F(JoinerTest, ADamagedChunkIsWantedAgain) {
  const auto chunks = run([&](Transport& leaver) {
    Chunk damaged = half_of(Rank(0), kOneSlot, 0);
    damaged.writable_body()[3] ^= std::byte{1};
    send(leaver, damaged);
    MessageBytes bytes;
    ASSERT_EQ(hear(leaver, bytes), MessageKind::kWantSlot);
    EXPECT_TRUE(decode_wanted_slot(bytes)->have.empty());
  });
  EXPECT_TRUE(chunks.empty());
}

TEST_F(JoinerTest, WhatHasNoRoomIsNotThere) {
  bytes_max_ = kChunkSize;
  const auto chunks = run([&](Transport& leaver) {
    for (const int chunk : {0, 1}) send(leaver, half_of(Rank(0), kOneSlot, chunk));
    EXPECT_FALSE(leaver.receive_service_message(absl::Milliseconds(50)).ok());
  });
  EXPECT_TRUE(chunks.empty());
}

TEST_F(JoinerTest, ConnectsWithThoseWhomItsRoleWillNeed) {
  run([&](Transport& leaver) {
    send(leaver, MessageKind::kConnect, encode(Neighbours{{Rank(1), {addresses_[1], {}, true}}}));
  });
  EXPECT_EQ(connected_, (std::vector{true, true, true, false})) << "role 1, itself and the leaver";
}

TEST_F(JoinerTest, ConnectsWithThoseWhoComeWithIt) {
  run([&](Transport& leaver) {
    const Neighbour alone{addresses_[1], {}, true},
        with_joiner{addresses_[1], others_joiner_, true};
    send(leaver, MessageKind::kConnect, encode(Neighbours{{Rank(1), alone}}));
    send(leaver, MessageKind::kConnect, encode(Neighbours{{Rank(1), with_joiner}}));
  });
  EXPECT_EQ(connected_, (std::vector{true, true, true, true})) << "both processes of both roles";
}

TEST_F(JoinerTest, ConnectsWithNobodyWhoCannotBe) {
  for (const int32_t rank : {0, 2, 7}) {
    connected_.clear();
    run([&](Transport& leaver) {
      send(leaver, MessageKind::kConnect,
           encode(Neighbours{{Rank(rank), {addresses_[1], {}, true}}}));
    });
    EXPECT_EQ(connected_, (std::vector{true, false, true, false})) << rank;
  }
}

TEST_F(JoinerTest, NobodyElseGivesItAnything) {
  const auto idle = [](Transport&) {};
  const auto stranger = [&](Transport& other) {
    for (const int chunk : {0, 1}) {
      auto sent =
          other.start_send(other_process(Rank(0), kRolesOfJob),
                           {View(1), kServiceGroup, static_cast<uint32_t>(MessageKind::kChunk)},
                           half_of(Rank(0), kOneSlot, chunk).block());
      (void)other.wait(std::move(sent), absl::Milliseconds(20));
    }
  };
  EXPECT_TRUE(run(idle, stranger).empty());
}

}  // namespace
}  // namespace evermoe
