#include "data/evaluation_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace evermoe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// How often each token is a target that counts.
std::vector<int> counts(const EvaluationOrder& order) {
  std::vector<int> counted(static_cast<size_t>(order.tokens));
  for (int32_t m = 0; m < order.micro_batches(); ++m) {
    const std::vector<int64_t> begins = order.begins_of(MicroBatch(m));
    std::vector<int64_t> targets;
    for (const int64_t begin : begins) {
      EXPECT_GE(begin, 0);
      EXPECT_LT(begin + order.sequence_length, order.tokens);
      for (int64_t i = 1; i <= order.sequence_length; ++i) targets.push_back(begin + i);
    }
    EXPECT_EQ(std::ssize(begins), order.sequences_of(MicroBatch(m)));
    const int64_t skipped = std::ssize(targets) - order.targets_of(MicroBatch(m));
    for (size_t i = static_cast<size_t>(skipped); i < targets.size(); ++i)
      ++counted[static_cast<size_t>(targets[i])];
  }
  return counted;
}

TEST(EvaluationOrderTest, AllIsEveryTargetOnce) {
  for (const int64_t length : {1, 4, 7}) {
    for (int64_t tokens = length + 1; tokens < 60; ++tokens) {
      for (const int64_t size : {1, 2, 3, 8}) {
        const std::vector<int> counted = counts({tokens, length, size, 0});
        EXPECT_EQ(counted[0], 0) << "nothing comes before the first token";
        EXPECT_THAT(std::vector<int>(counted.begin() + 1, counted.end()), Each(1))
            << tokens << " tokens, length " << length << ", size " << size;
      }
    }
  }
}

TEST(EvaluationOrderTest, TheLastMicroBatchHasWhatIsLeft) {
  const EvaluationOrder order{
      .tokens = 23, .sequence_length = 4, .micro_batch_size = 4, .micro_batches_max = 0};
  EXPECT_EQ(order.micro_batches(), 2);
  EXPECT_EQ(order.sequences_of(MicroBatch(1)), 2);
  EXPECT_THAT(order.begins_of(MicroBatch(1)),
              ElementsAre(18, 16));  // targets 19 to 22, of which two count
  EXPECT_EQ(order.targets_of(MicroBatch(1)), 6);
}

TEST(EvaluationOrderTest, FewMicroBatchesAreSpreadOverTheText) {
  const EvaluationOrder order{
      .tokens = 1001, .sequence_length = 10, .micro_batch_size = 2, .micro_batches_max = 2};
  EXPECT_THAT(order.begins_of(MicroBatch(0)), ElementsAre(0, 250));
  EXPECT_THAT(order.begins_of(MicroBatch(1)), ElementsAre(500, 750));
}

TEST(EvaluationOrderTest, NoWindowIsReadTwice) {
  for (int64_t tokens = 11; tokens < 300; ++tokens) {
    for (int64_t wanted = 1; wanted < 12; ++wanted) {
      const EvaluationOrder order{tokens, 10, 3, wanted};
      const std::vector<int> counted = counts(order);
      EXPECT_LE(*std::max_element(counted.begin(), counted.end()), 1);
      EXPECT_LE(order.micro_batches(), wanted);
      int64_t targets = 0;
      for (int32_t m = 0; m < order.micro_batches(); ++m)
        targets += order.targets_of(MicroBatch(m));
      EXPECT_EQ(targets, std::accumulate(counted.begin(), counted.end(), int64_t{0}));
    }
  }
}

TEST(EvaluationOrderTest, MoreMicroBatchesThanTheTextHasAreTheWholeTextOnce) {
  const EvaluationOrder all{
      .tokens = 95, .sequence_length = 10, .micro_batch_size = 4, .micro_batches_max = 0};
  const EvaluationOrder more{
      .tokens = 95, .sequence_length = 10, .micro_batch_size = 4, .micro_batches_max = 100};
  EXPECT_EQ(all.micro_batches(), 3);
  EXPECT_EQ(more.micro_batches(), 3);
  EXPECT_EQ(counts(more), counts(all));
}

}  // namespace
}  // namespace evermoe
