// What the training thread waits for when its service thread finds that this process has to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recovery/member/serve/member_service.h"
#include "recovery/rank_testing.h"

namespace evermoe {
namespace {

using testing::IsEmpty;

// Rank 0's training thread waits for what never comes when its service thread finds the
// contradiction.
class EndedUnderTest : public RankTest {
 protected:
  static constexpr BoundaryName kName{verdict_commit(Step(0)), BoundaryDirection::kActivation,
                                      MicroBatch(1)};
  // What `waits`, of rank 0, comes back with.
  absl::Status end_under(const std::function<absl::Status(RankParts&)>& waits,
                         Commit newest = verdict_commit(Step(0))) {
    absl::Status result;
    run(
        2,
        [&, newest](RankParts& rank) {
          rank.begin_run(1);
          ASSERT_TRUE(rank.memory.received.note(kName, {1, 2}).ok());
          ASSERT_TRUE(rank.enter(plan(1).up_to(newest)).ok());
          if (rank.rank() == Rank(0)) {
            result = waits(rank);
            EXPECT_LT(now(), absl::Seconds(1)) << "not by a deadline";
            EXPECT_THAT(rank.told.all<Trouble>(), IsEmpty());
            return;
          }
          pause(absl::Milliseconds(50));
          rank.sender.send(Rank(0), View(1), MessageKind::kAudit, encode_audit(kName, {1, 3}));
          pause(absl::Seconds(5));
        },
        /*ends_well=*/false);
    return result;
  }
};

TEST_F(EndedUnderTest, ABoundaryMessageThatIsPulled) {
  const absl::Status ended = end_under([](RankParts& rank) {
    std::vector<std::byte> into(8);
    rank.exchange.begin(verdict_commit(Step(0)));
    return rank.exchange.receive(Rank(1), BoundaryDirection::kGradient, MicroBatch(0), into);
  });
  EXPECT_TRUE(is_contradiction(ended)) << ended;
}

TEST_F(EndedUnderTest, ABoundaryMessageThatIsPushed) {
  const absl::Status ended = end_under([](RankParts& rank) {
    std::vector<std::byte> into(8);
    rank.exchange.begin(verdict_commit(Step(2)));
    return rank.exchange.receive(Rank(1), BoundaryDirection::kGradient, MicroBatch(0), into);
  });
  EXPECT_TRUE(is_contradiction(ended)) << ended;
}

TEST_F(EndedUnderTest, RecordsThatAreFetched) {
  const Commit missed = verdict_commit(Step(1));
  const absl::Status ended =
      end_under([&](RankParts& rank) { return rank.commits.fetch(missed, missed); }, missed);
  EXPECT_TRUE(is_contradiction(ended)) << ended;
}

TEST_F(EndedUnderTest, ACommitOfTheWorld) {
  const absl::Status ended = end_under([](RankParts& rank) {
    const auto kind = CommitAgreement::Kind::kStep;
    return rank.commits.agree(verdict_commit(Step(1)), kind, {{1}, {1}}).status();
  });
  EXPECT_TRUE(is_contradiction(ended)) << ended;
}

TEST_F(EndedUnderTest, ACallInsideTheStage) {
  const absl::Status ended = end_under([](RankParts& rank) {
    Communicator stage(rank.transport, {Rank(0), Rank(1)},
                       {View(1), kFirstStageGroup, absl::Minutes(5)});
    EXPECT_TRUE(absl::IsCancelled(stage.barrier()));
    return rank.views.pass().status();
  });
  EXPECT_TRUE(is_contradiction(ended)) << ended;
}

}  // namespace
}  // namespace evermoe
