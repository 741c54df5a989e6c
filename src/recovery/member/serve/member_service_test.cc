// What a member answers to its controller and to other members: order_follower.h, message_answers.h
// and member_service.h.
#include "recovery/member/serve/member_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protection/snapshots/chunk_testing.h"
#include "recovery/rank_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::Duration kMoment = absl::Milliseconds(50);

Chunk chunk_of(Rank owner, int number = 0, int chunks = 1, int64_t size = 8) {
  return filled_chunk({.owner = owner,
                       .window = Step(0),
                       .slot = 0,
                       .slots = 1,
                       .chunk = number,
                       .chunks = chunks,
                       .operator_index = 0,
                       .size = size});
}

class MemberServiceTest : public RankTest {
 protected:
  // `asks` is the training thread of rank 1 in view 1, `then` that of rank 0 a moment later.
  void run_pair(const Body& asks, const Body& then) {
    run(2, [&](RankParts& rank) {
      rank.begin_run(1);
      ASSERT_TRUE(rank.enter(plan(1).up_to(verdict_commit(Step(0)))).ok());
      if (rank.rank() == Rank(1)) asks(rank);
      pause(kMoment);
      if (rank.rank() == Rank(0)) then(rank);
      pause(kMoment);
    });
  }
  static void send(RankParts& rank, MessageKind kind, MessageBytes bytes) {
    rank.sender.send(Rank(0), rank.views.newest_view(), kind, std::move(bytes));
  }
  static MessageBytes bytes_of(const Chunk& chunk) {
    return {chunk.block().begin(), chunk.block().end()};
  }
};

TEST_F(MemberServiceTest, AStopIsAnsweredWithAReport) {
  run(1, [&](RankParts& rank) {
    rank.begin_run(1);
    ASSERT_TRUE(rank.memory.store.add(chunk_of(Rank(0))).ok());
    rank.order(StopOrder{View(3), /*incident=*/2});
    pause(kMoment);
    const auto reports = rank.told.all<Report>();
    ASSERT_THAT(reports, SizeIs(1));
    EXPECT_EQ(reports[0].view, View(3));
    EXPECT_EQ(reports[0].newest, verdict_commit(Step(0)));
    EXPECT_THAT(reports[0].held, ElementsAre(HeldWindow{Rank(0), Step(0)}));
    EXPECT_TRUE(reports[0].is_broken) << "it has not begun";
    EXPECT_EQ(rank.follower.incident_under_way(), 2);
    rank.order(StopOrder{View(2)});
    pause(kMoment);
    EXPECT_THAT(rank.told.all<Report>(), SizeIs(1)) << "that view is over";
  });
}

TEST_F(MemberServiceTest, WhoIsAtAnUpdateReportsTheStateAfterIt) {
  run(1, [&](RankParts& rank) {
    ASSERT_TRUE(rank.enter(plan(1)).ok());
    ASSERT_TRUE(rank.views.accept(View(1), /*updates=*/true, [] {}));
    rank.order(StopOrder{View(2)});
    pause(kMoment);
    EXPECT_THAT(rank.told.all<Report>(), SizeIs(1)) << "that of view 1";
    rank.views.set_has_state(true, Step(1), Step(-1));
    rank.views.set_updated();
    pause(kMoment);
    const auto reports = rank.told.all<Report>();
    ASSERT_THAT(reports, SizeIs(2));
    EXPECT_EQ(reports[1].view, View(2));
    EXPECT_EQ(reports[1].held_state, Step(1));
  });
}

TEST_F(MemberServiceTest, AnUpdateThatDoesNotEndIsNotWaitedForLong) {
  run(1, [&](RankParts& rank) {
    ASSERT_TRUE(rank.enter(plan(1)).ok());
    ASSERT_TRUE(rank.views.accept(View(1), /*updates=*/true, [] {}));
    rank.order(StopOrder{View(2)});
    rank.order(StopOrder{View(3)});
    pause(absl::Seconds(1));
    const auto reports = rank.told.all<Report>();
    ASSERT_THAT(reports, SizeIs(2));
    EXPECT_EQ(reports[1].view, View(3));
  });
}

TEST_F(MemberServiceTest, AfterAHandOverTheVerdictIsWaitedFor) {
  run(1, [&](RankParts& rank) {
    ASSERT_TRUE(rank.enter(plan(1)).ok());
    ASSERT_TRUE(rank.memory.records.put(verdict_commit(Step(6)), encode(Record())).ok());
    rank.order(StopOrder{View(2), /*incident=*/0, /*handed_over=*/Step(7)});
    pause(kMoment);
    EXPECT_EQ(rank.views.newest_view(), View(1)) << "it may still commit in that view";
    EXPECT_THAT(rank.told.all<Report>(), SizeIs(1)) << "that of view 1";
    ASSERT_TRUE(rank.memory.records.put(verdict_commit(Step(7)), encode(Record())).ok());
    pause(kMoment);
    const auto reports = rank.told.all<Report>();
    ASSERT_THAT(reports, SizeIs(2));
    EXPECT_EQ(reports[1].view, View(2));
    EXPECT_EQ(reports[1].newest, verdict_commit(Step(7)));
  });
}

TEST_F(MemberServiceTest, AVerdictThatDoesNotComeIsNotWaitedForLong) {
  run(1, [&](RankParts& rank) {
    ASSERT_TRUE(rank.enter(plan(1)).ok());
    rank.order(StopOrder{View(2), /*incident=*/0, /*handed_over=*/Step(7)});
    rank.order(StopOrder{View(1)});  // it is late
    pause(absl::Milliseconds(300));
    EXPECT_THAT(rank.told.all<Report>(), SizeIs(2));
    rank.order(StopOrder{View(3), /*incident=*/0, /*handed_over=*/Step(7)});
    rank.order(StopOrder{View(4)});
    pause(kMoment);
    const auto reports = rank.told.all<Report>();
    ASSERT_THAT(reports, SizeIs(3)) << "and not at all where another view begins meanwhile";
    EXPECT_EQ(reports[2].view, View(4));
  });
}

TEST_F(MemberServiceTest, APlanOfAnOlderViewIsNotFollowed) {
  run(1, [&](RankParts& rank) {
    rank.order(StopOrder{View(3)});
    rank.order(plan(2).plan());
    pause(kMoment);
    EXPECT_EQ(rank.views.plan(), nullptr);
    rank.order(plan(3).plan());
    pause(kMoment);
    EXPECT_EQ(rank.views.plan()->view, View(3));
    EXPECT_EQ(rank.told.all<Milestone>().back().kind, Milestone::Kind::kOpened);
  });
}

TEST_F(MemberServiceTest, ARestartOfAllLeavesNothingOfTheOldRun) {
  run(1, [&](RankParts& rank) {
    ASSERT_TRUE(rank.memory.store.add(chunk_of(Rank(0))).ok());
    ASSERT_TRUE(rank.memory.log.put({Commit(2), {}, MicroBatch(0)}, {}).ok());
    ASSERT_TRUE(rank.begin(plan(1).restarting_all()).ok());
    EXPECT_THAT(rank.memory.store.held(), IsEmpty());
    EXPECT_EQ(rank.memory.log.find({Commit(2), {}, MicroBatch(0)}), std::nullopt);
  });
}

TEST_F(MemberServiceTest, ACopyIsAcknowledgedWhenTheSlotIsWhole) {
  run_pair(
      [&](RankParts& rank) { send(rank, MessageKind::kChunk, bytes_of(chunk_of(Rank(1), 0, 2))); },
      [&](RankParts& rank) {
        EXPECT_FALSE(rank.memory.store.has_slot(Rank(1), {Step(0), 0}));
      });
  run_pair(
      [&](RankParts& rank) {
        for (const int number : {0, 1})
          send(rank, MessageKind::kChunk, bytes_of(chunk_of(Rank(1), number, 2)));
      },
      [&](RankParts& rank) {
        EXPECT_TRUE(rank.memory.store.has_slot(Rank(1), {Step(0), 0}));
      });
}

TEST_F(MemberServiceTest, ACopyThatCameDamagedIsNotKept) {
  run_pair(
      [&](RankParts& rank) {
        MessageBytes bytes = bytes_of(chunk_of(Rank(1)));
        bytes.back() ^= std::byte{1};
        send(rank, MessageKind::kChunk, bytes);
      },
      [&](RankParts& rank) {
        EXPECT_FALSE(rank.memory.store.has_slot(Rank(1), {Step(0), 0}));
      });
}

// Rank 0 keeps copies of rank 1, but none of rank 2 any more.
TEST_F(MemberServiceTest, CopiesThatNobodyAssignedAreForgottenWhenTheirOwnerSaysSo) {
  run(3, [&](RankParts& rank) {
    if (rank.rank() == Rank(0)) {
      for (const int owner : {1, 2}) ASSERT_TRUE(rank.memory.store.add(chunk_of(Rank(owner))).ok());
    }
    ASSERT_TRUE(rank.enter(plan(1).held_by(1, 0).held_by(2, 1)).ok());
    if (rank.rank() != Rank(0)) send(rank, MessageKind::kForget, {});
    pause(kMoment);
    if (rank.rank() != Rank(0)) return pause(kMoment);
    EXPECT_THAT(rank.memory.store.owners(), ElementsAre(Rank(1)));
  });
}

// The store has room for one of them.
TEST_F(MemberServiceTest, CopiesThatNobodyAssignedMakeRoomForOneThatIsOfferedAgain) {
  constexpr int64_t kLarge = 600'000;
  run(2, [&](RankParts& rank) {
    if (rank.rank() == Rank(0)) {
      ASSERT_TRUE(rank.memory.store.add(chunk_of(Rank(2), 0, 1, kLarge)).ok());
    }
    ASSERT_TRUE(rank.enter(plan(1).held_by(1, 0)).ok());
    const std::vector<Rank> expected[] = {{Rank(2)}, {Rank(1)}};
    for (const int time : {0, 1}) {
      if (rank.rank() == Rank(1))
        send(rank, MessageKind::kChunk, bytes_of(chunk_of(Rank(1), 0, 1, kLarge)));
      pause(kMoment);
      if (rank.rank() != Rank(0)) continue;
      EXPECT_EQ(rank.memory.store.owners(), expected[time]);
      EXPECT_EQ(rank.memory.store.has_slot(Rank(1), {Step(0), 0}), time == 1);
    }
    pause(kMoment);
  });
}

// Nothing is kept but what the plan says: the limit is wrong.
TEST_F(MemberServiceTest, ACopyThatDoesNotFitEndsTheProcess) {
  constexpr int64_t kLarge = 600'000;
  run(
      2,
      [&](RankParts& rank) {
        ASSERT_TRUE(rank.enter(plan(1).held_by(1, 0)).ok());
        for (const int number : {0, 1}) {
          if (rank.rank() == Rank(1))
            send(rank, MessageKind::kChunk, bytes_of(chunk_of(Rank(1), number, 2, kLarge)));
        }
        pause(kMoment);
        EXPECT_EQ(rank.views.has_ended(), rank.rank() == Rank(0));
        pause(kMoment);
      },
      /*ends_well=*/false);
}

// It would play its role from then on, and nobody could tell its messages from the leaver's.
TEST_F(MemberServiceTest, AJoinerOfTheOpenViewEndsTheProcess) {
  run(
      2,
      [&](RankParts& rank) {
        ASSERT_TRUE(rank.enter(plan(1)).ok());
        if (rank.rank() == Rank(1))
          send(rank, MessageKind::kComing, encode(PeerAddress{"sim:0", View(1)}));
        pause(kMoment);
        EXPECT_EQ(rank.views.has_ended(), rank.rank() == Rank(0));
      },
      /*ends_well=*/false);
}

// Rank 1 wants a copy of a slot that rank 0 cannot vouch for; it must not wait for it.
TEST_F(MemberServiceTest, ADamagedSlotOfItsOwnIsGivenUp) {
  run(2, [&](RankParts& rank) {
    const SlotTime slot{Step(0), 0};
    if (rank.rank() == Rank(0)) {
      ASSERT_TRUE(rank.memory.store.add(chunk_of(Rank(0))).ok());
      rank.copies.adopt({slot}, {});
      rank.memory.store.corrupt(Rank(0));
    }
    ASSERT_TRUE(rank.enter(plan(1).held_by(0, 1)).ok());
    if (rank.rank() == Rank(1)) return pause(4 * kMoment);
    EXPECT_TRUE(rank.copies.wait_settled().ok());
    EXPECT_FALSE(rank.memory.store.has_slot(Rank(0), slot));
    EXPECT_EQ(rank.copies.complete_window(), Step(-1));
    pause(4 * kMoment);
  });
}

// Rank 1 has lost its own snapshot, of which rank 0 has a copy; and asks for one that nobody has.
TEST_F(MemberServiceTest, WhoAsksGetsTheCopyOrIsRefused) {
  run(2, [&](RankParts& rank) {
    if (rank.rank() == Rank(0)) {
      ASSERT_TRUE(rank.memory.store.add(chunk_of(Rank(1))).ok());
    }
    ASSERT_TRUE(rank.enter(plan(1)).ok());
    if (rank.rank() == Rank(1))
      send(rank, MessageKind::kWantSlot, encode(WantedSlot{{Rank(1), {Step(0), 0}}, {}}));
    if (rank.rank() == Rank(1))
      send(rank, MessageKind::kWantSlot, encode(WantedSlot{{Rank(1), {Step(5), 0}}, {}}));
    pause(kMoment);
    if (rank.rank() == Rank(0)) return pause(kMoment);
    EXPECT_TRUE(rank.memory.store.has_slot(Rank(1), {Step(0), 0}));
    EXPECT_THAT(rank.refused.take(), ElementsAre(RefusedSlots::Refusal(Rank(0), {Step(5), 0})));
  });
}

TEST_F(MemberServiceTest, RecordsAreHandedOut) {
  run_pair(
      [&](RankParts& rank) {
        rank.memory.records.clear();
        send(rank, MessageKind::kWantRecords, encode(verdict_commit(Step(0))));
        pause(kMoment);
        EXPECT_EQ(rank.memory.records.newest(), verdict_commit(Step(0)));
      },
      [](RankParts&) {});
}

TEST_F(MemberServiceTest, AMessageOfAnOlderViewIsDroppedOneOfTheNextWaits) {
  run(2, [&](RankParts& rank) {
    ASSERT_TRUE(rank.enter(plan(2)).ok());
    if (rank.rank() == Rank(1)) {
      rank.sender.send(Rank(0), View(1), MessageKind::kChunk, bytes_of(chunk_of(Rank(1), 0, 2)));
      rank.sender.send(Rank(0), View(3), MessageKind::kChunk, bytes_of(chunk_of(Rank(1), 1, 2)));
    }
    pause(kMoment);
    if (rank.rank() == Rank(1)) return pause(3 * kMoment);
    const auto held = [&] { return rank.memory.store.chunks(Rank(1), {Step(0), 0}).size(); };
    EXPECT_EQ(held(), 0u);
    ASSERT_TRUE(rank.enter(plan(3)).ok());
    pause(kMoment);
    EXPECT_EQ(held(), 1u);
  });
}

TEST_F(MemberServiceTest, ABoundaryMessageComputedAgainMustHaveTheSameBits) {
  const BoundaryName name{Commit(4), BoundaryDirection::kActivation, MicroBatch(1)};
  for (const bool is_same : {true, false}) {
    std::string ended;
    size_t witnesses = 0;
    run(
        2,
        [&](RankParts& rank) {
          ASSERT_TRUE(rank.memory.received.note(name, {1, 2}).ok());
          ASSERT_TRUE(rank.enter(plan(1)).ok());
          if (rank.rank() == Rank(1))
            send(rank, MessageKind::kAudit, encode_audit(name, {1, is_same ? 2u : 3u}));
          pause(kMoment);
          if (rank.rank() == Rank(0)) {
            ended = std::string(rank.views.pass(View(1)).status().message());
            witnesses = rank.witnesses.size();
          }
          if (rank.rank() == Rank(1)) pause(kMoment);
        },
        /*ends_well=*/is_same);
    if (!is_same) {
      EXPECT_THAT(ended, HasSubstr("message from rank 1: computed again"));
    }
    EXPECT_EQ(witnesses, is_same ? 0u : 1u);
  }
}

TEST_F(MemberServiceTest, AMessageSentAgainWithOtherBitsIsAWitness) {
  run(2, [&](RankParts& rank) {
    rank.begin_run(1);
    const Commit again = verdict_commit(Step(0));
    ASSERT_TRUE(rank.enter(plan(1).up_to(again)).ok());
    if (rank.rank() == Rank(0)) return pause(kMoment);
    rank.exchange.begin(again);
    const std::vector<std::byte> before(8, std::byte{1});
    const std::vector<std::byte> now(8, std::byte{3});
    const auto send = [&](const std::vector<std::byte>& bytes) {
      return rank.exchange.send(Rank(0), BoundaryDirection::kGradient, MicroBatch(0),
                                {bytes, nullptr});
    };
    EXPECT_TRUE(send(before).ok());
    EXPECT_TRUE(send(before).ok());
    EXPECT_EQ(rank.witnesses.size(), 0u);
    EXPECT_TRUE(is_contradiction(send(now)));
    EXPECT_EQ(rank.witnesses.size(), 1u);
  });
}

// Over a line on which the answer takes several times as long as the receiver waits before it asks
// again.
TEST_F(MemberServiceTest, APulledMessageThatIsOnItsWayIsNotSentAgain) {
  constexpr int64_t kBytes = 2000;
  bytes_per_second_ = 1000;
  const Commit again = verdict_commit(Step(0));
  int64_t sent = 0;
  run(2, [&](RankParts& rank) {
    rank.begin_run(1);
    ASSERT_TRUE(rank.enter(plan(1).up_to(again)).ok());
    rank.exchange.begin(again);
    const std::vector<std::byte> bytes(kBytes, std::byte{1});
    const auto gradient = BoundaryDirection::kGradient;
    if (rank.rank() == Rank(1)) {
      ASSERT_TRUE(rank.exchange.send(Rank(0), gradient, MicroBatch(0), {bytes, nullptr}).ok());
      return pause(absl::Minutes(1));
    }
    std::vector<std::byte> into(kBytes);
    ASSERT_TRUE(rank.exchange.receive(Rank(1), gradient, MicroBatch(0), into).ok());
    EXPECT_EQ(into, bytes);
    pause(absl::Seconds(30));
    sent = bytes_sent();
  });
  EXPECT_GE(sent, kBytes);
  EXPECT_LT(sent, kBytes + kBytes / 2);
}

TEST_F(MemberServiceTest, OnlyARehearsalMayDamageCopies) {
  run_pair(
      [&](RankParts& rank) {
        send(rank, MessageKind::kChunk, bytes_of(chunk_of(Rank(1))));
        pause(kMoment / 2);
        send(rank, MessageKind::kCorrupt, {});
      },
      [&](RankParts& rank) {
        const auto chunks = rank.memory.store.slot(Rank(1), {Step(0), 0});
        ASSERT_THAT(chunks, SizeIs(1));
        EXPECT_FALSE(chunks[0].verify().ok());
        MessageAnswers in_earnest({rank.rank(), rank.views, rank.memory, rank.copies, rank.peers,
                                   rank.joiner, rank.exchange, rank.sender, rank.refused, rank.wake,
                                   /*is_rehearsal=*/false});
        ServiceMessage corrupt;
        corrupt.tag.purpose = static_cast<uint32_t>(MessageKind::kCorrupt);
        EXPECT_TRUE(absl::IsDataLoss(in_earnest.on_message(std::move(corrupt), View(1))));
      });
}

TEST_F(MemberServiceTest, TroubleIsToldOnceAndAgainToANewController) {
  run(1, [&](RankParts& rank) {
    ASSERT_TRUE(rank.enter(plan(2)).ok());
    rank.troubles.report(View(1), PeerLost(Rank(3), "rank 3 is gone"));
    EXPECT_THAT(rank.told.all<Trouble>(), IsEmpty()) << "that view is over";
    for (int attempt = 0; attempt < 3; ++attempt)
      rank.troubles.report(View(2), PeerLost(Rank(3), "rank 3 is gone"));
    ASSERT_THAT(rank.told.all<Trouble>(), SizeIs(1));
    EXPECT_EQ(rank.told.all<Trouble>()[0].accused, Rank(3));
    rank.troubles.repeat();
    EXPECT_THAT(rank.told.all<Trouble>(), SizeIs(2));
    rank.order(StopOrder{View(3)});
    pause(kMoment);
    rank.troubles.repeat();
    EXPECT_THAT(rank.told.all<Trouble>(), SizeIs(2)) << "a new view is about to mend it";
  });
}

}  // namespace
}  // namespace evermoe
