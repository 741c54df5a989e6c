#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protection/logs/boundary_log.h"
#include "protection/logs/record_log.h"

namespace evermoe {
namespace {

BoundaryMessage message(const std::string& text) {
  auto owner = std::make_shared<std::string>(text);
  return {std::as_bytes(std::span(*owner)), owner};
}

BoundaryName activation(int64_t commit, int32_t micro_batch = 0) {
  return {Commit(commit), BoundaryDirection::kActivation, MicroBatch(micro_batch)};
}

std::string text_of(const std::optional<BoundaryMessage>& found) {
  if (!found) return "none";
  return {reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()};
}

TEST(CommitTest, AnEvaluationComesBetweenTwoVerdicts) {
  EXPECT_LT(verdict_commit(Step(3)), evaluation_commit(Step(3)));
  EXPECT_LT(evaluation_commit(Step(3)), verdict_commit(Step(4)));
  EXPECT_LT(evaluation_commit(Step(9)), closing_commit(Step(9), 0));
  EXPECT_LT(evaluation_commit(Step(3), kEvaluationBatchesMax - 1), verdict_commit(Step(4)));
  EXPECT_EQ(step_of(evaluation_commit(Step(3), 5)), Step(3));
}

// What is under way belongs to the commit after the newest one, so no more than these are asked
// for.
TEST(CommitTest, WhateverFollowsACommitIsUnderWay) {
  for (const Commit newest :
       {verdict_commit(Step(3)), evaluation_commit(Step(3)), evaluation_commit(Step(3), 7)}) {
    EXPECT_LE(Commit(newest.value + 1), last_under_way(newest));
    EXPECT_EQ(last_under_way(newest), verdict_commit(Step(4)));
  }
  EXPECT_LT(last_under_way(Commit(-1)), verdict_commit(Step(0)))
      << "before the first commit of all";
}

TEST(BoundaryLogTest, RequestsGoOnWaitingWhenMessagesAreForgotten) {
  BoundaryLog log(3);
  ASSERT_TRUE(log.put(activation(4), message("abc")).ok());
  EXPECT_EQ(log.find_or_wait(activation(5), {Rank(2)}), std::nullopt);
  log.forget_messages();
  EXPECT_EQ(text_of(log.find(activation(4))), "none");
  EXPECT_EQ(log.bytes(), 0);
  const auto waiting = log.put(activation(5), message("def"));
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_THAT(*waiting, testing::SizeIs(1));
}

TEST(BoundaryLogTest, AnswersAtOnceOrWhenTheMessageComes) {
  BoundaryLog log(1000);
  ASSERT_TRUE(log.put(activation(2), message("two")).ok());
  EXPECT_EQ(text_of(log.find_or_wait(activation(2), {Rank(5)})), "two");
  EXPECT_EQ(text_of(log.find_or_wait(activation(4), {Rank(5)})), "none");
  EXPECT_EQ(text_of(log.find_or_wait(activation(4), {Rank(5)})), "none");
  const auto waiting = log.put(activation(4), message("four"));
  ASSERT_TRUE(waiting.ok());
  EXPECT_THAT(*waiting, testing::ElementsAre(BoundaryLog::Waiting{Rank(5)}));
  EXPECT_TRUE(log.put(activation(4), message("four"))->empty()) << "answered twice";
}

TEST(BoundaryLogTest, ForgottenRequestsAreNotAnswered) {
  BoundaryLog log(1000);
  log.find_or_wait(activation(4), {Rank(5)});
  log.forget_waiting();
  EXPECT_TRUE(log.put(activation(4), message("four"))->empty());
}

TEST(BoundaryLogTest, WhatIsComputedAgainMustHaveTheSameBits) {
  BoundaryLog log(1000);
  ASSERT_TRUE(log.put(activation(2), message("two")).ok());
  EXPECT_TRUE(log.put(activation(2), message("two")).ok());
  const absl::Status other = log.put(activation(2), message("twO")).status();
  EXPECT_TRUE(absl::IsDataLoss(other)) << other;
  EXPECT_THAT(
      std::string(other.message()),
      testing::HasSubstr("activation of micro-batch 0 of step 0, batch 1 of its evaluation"));
}

TEST(BoundaryLogTest, KeepsCountOfItsBytesAndItsLimit) {
  BoundaryLog log(8);
  ASSERT_TRUE(log.put(activation(2), message("1234")).ok());
  ASSERT_TRUE(log.put(activation(4), message("5678")).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(log.put(activation(6), message("9")).status()));
  log.free_before(Commit(4));
  EXPECT_EQ(log.bytes(), 4);
  EXPECT_EQ(text_of(log.find(activation(2))), "none");
  EXPECT_EQ(text_of(log.find(activation(4))), "5678");
  EXPECT_TRUE(log.put(activation(6), message("9")).ok());
  EXPECT_EQ(log.bytes_peak(), 8);
}

TEST(BoundaryLogTest, ACommitCanBeForgottenAlone) {
  BoundaryLog log(1000);
  for (const int64_t commit : {2, 3, 4})
    ASSERT_TRUE(log.put(activation(commit), message("1234")).ok());
  log.free(Commit(3));
  EXPECT_EQ(log.bytes(), 8);
  EXPECT_EQ(text_of(log.find(activation(2))), "1234");
  EXPECT_EQ(text_of(log.find(activation(3))), "none");
  EXPECT_EQ(text_of(log.find(activation(4))), "1234");
  log.free(Commit(3));
  EXPECT_EQ(log.bytes(), 8);
}

TEST(BoundaryLogTest, WhoHoldsAMessageKeepsItAlive) {
  BoundaryLog log(100);
  ASSERT_TRUE(log.put(activation(2), message("two")).ok());
  const auto held = log.find(activation(2));
  log.clear();
  EXPECT_EQ(text_of(held), "two");
}

TEST(ReceivedBoundariesTest, ComparesOnlyWhatItKnows) {
  ReceivedBoundaries received;
  const Fingerprint one{1, 1}, two{2, 2};
  EXPECT_TRUE(received.compare(activation(2), one).ok());
  EXPECT_TRUE(received.note(activation(2), one).ok());
  EXPECT_TRUE(received.note(activation(2), one).ok());
  EXPECT_TRUE(absl::IsDataLoss(received.note(activation(2), two)));
  EXPECT_TRUE(absl::IsDataLoss(received.compare(activation(2), two)));
  received.free_before(Commit(3));
  EXPECT_TRUE(received.compare(activation(2), two).ok());
}

TEST(RecordLogTest, OneRecordPerCommit) {
  RecordLog log;
  EXPECT_EQ(log.newest(), Commit(-1));
  const RecordBytes one{std::byte{1}}, two{std::byte{2}};
  EXPECT_TRUE(log.put(Commit(2), one).ok());
  EXPECT_TRUE(log.put(Commit(2), one).ok());
  EXPECT_TRUE(absl::IsDataLoss(log.put(Commit(2), two)));
  EXPECT_TRUE(log.put(Commit(3), two).ok());
  EXPECT_EQ(log.newest(), Commit(3));
  EXPECT_EQ(log.from(Commit(3)).size(), 1u);
  log.free_before(Commit(3));
  EXPECT_FALSE(log.find(Commit(2)));
  EXPECT_EQ(log.find(Commit(3)), two);
}

}  // namespace
}  // namespace evermoe
