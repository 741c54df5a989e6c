// In which order chunks go out to a holder.
#include "recovery/member/serve/peer_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "comm/simulated/network_clock.h"
#include "protection/snapshots/chunk_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;

constexpr Rank kOwn(0), kOther(2), kHolder(1);

Chunk chunk_in(Rank owner, int slot) {
  return filled_chunk({.owner = owner,
                       .window = Step(4),
                       .slot = slot,
                       .slots = 8,
                       .chunk = 0,
                       .chunks = 1,
                       .operator_index = 0,
                       .size = 8});
}

class PeerMemoryTest : public testing::Test {
 protected:
  // What the holder gets, as owner and slot.
  std::vector<std::pair<Rank, int>> sent(const std::function<void(PeerMemory&)>& fill) {
    SimulatedNetwork network(3, {.time_max = absl::Minutes(1)});
    NetworkClock clock(network);
    std::vector<PeerAddress> table(3);
    std::vector<std::pair<Rank, int>> got;
    const ProcessNumber owner =
        network.start(kOwn, View(1), {[&](Transport& transport) {
                        ASSERT_TRUE(transport.set_peers(table).ok());
                        MessageSender sender(transport, [](View, const absl::Status&) {});
                        PeerMemory peer({kOwn, sender, transport, clock}, {});
                        peer.set_holders(View(1), {kHolder}, table, {});
                        peer.work({});
                        fill(peer);
                        for (int i = 0; i < 20; ++i) {
                          peer.work({});
                          network.pause(absl::Milliseconds(5));
                        }
                        transport.close();
                      }});
    const ProcessNumber holder =
        network.start(kHolder, View(1), {[&](Transport& transport) {
                        ASSERT_TRUE(transport.set_peers(table).ok());
                        while (true) {
                          auto message = transport.receive_service_message(absl::Seconds(1));
                          if (!message.ok()) break;
                          const size_t size = message->size;
                          const auto chunk = Chunk::from_block(
                              std::shared_ptr<std::byte[]>(message->bytes.release()), size);
                          ASSERT_TRUE(chunk.ok()) << chunk.status();
                          got.emplace_back(chunk->header().owner, chunk->header().slot);
                        }
                        transport.close();
                      }});
    table[0] = {SimulatedNetwork::address(owner), View(1)};
    table[1] = {SimulatedNetwork::address(holder), View(1)};
    EXPECT_TRUE(network.run()) << network.waiting();
    return got;
  }
};

using Sent = std::pair<Rank, int>;

TEST_F(PeerMemoryTest, ChunksGoOutAsTheyCome) {
  EXPECT_THAT(sent([](PeerMemory& peer) {
                peer.send_wanted(kHolder, {chunk_in(kOther, 0), chunk_in(kOther, 1)});
                EXPECT_TRUE(peer.add(chunk_in(kOwn, 2)).ok());
              }),
              ElementsAre(Sent(kOther, 0), Sent(kOther, 1), Sent(kOwn, 2)));
}

TEST_F(PeerMemoryTest, AHandOverGoesFirst) {
  EXPECT_THAT(sent([](PeerMemory& peer) {
                EXPECT_TRUE(peer.add(chunk_in(kOwn, 2)).ok());
                EXPECT_TRUE(peer.add(chunk_in(kOwn, kWholeState)).ok());
                EXPECT_EQ(peer.handed_waiting(), 1u);
              }),
              ElementsAre(Sent(kOwn, kWholeState), Sent(kOwn, 2)));
}

TEST_F(PeerMemoryTest, ItsOwnGoesBeforeCopiesOfOthersIfThatIsSaid) {
  EXPECT_THAT(sent([](PeerMemory& peer) {
                peer.send_wanted(kHolder, {chunk_in(kOther, 0)});
                EXPECT_TRUE(peer.add(chunk_in(kOwn, 2)).ok());
                peer.send_wanted(kHolder, {chunk_in(kOther, 1)});
                peer.set_own_first(true);
                EXPECT_TRUE(peer.add(chunk_in(kOwn, 3)).ok());
                EXPECT_TRUE(peer.add(chunk_in(kOwn, kWholeState)).ok());
              }),
              ElementsAre(Sent(kOwn, kWholeState), Sent(kOwn, 2), Sent(kOwn, 3), Sent(kOther, 0),
                          Sent(kOther, 1)));
}

TEST_F(PeerMemoryTest, WhatIsNotNeededDoesNotGo) {
  EXPECT_THAT(sent([](PeerMemory& peer) {
                peer.send_wanted(kHolder, {chunk_in(kOther, 0)});
                EXPECT_TRUE(peer.add(chunk_in(kOwn, 2)).ok());
                EXPECT_TRUE(peer.add(chunk_in(kOwn, 3)).ok());
                peer.send_only([](SlotTime time) { return time.slot == 3; });
              }),
              ElementsAre(Sent(kOwn, 3)));
}

}  // namespace
}  // namespace evermoe
