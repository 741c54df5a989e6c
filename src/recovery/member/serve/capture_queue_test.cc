#include "recovery/member/serve/capture_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::ElementsAre;

// A position and three operators, the last in two chunks.
CaptureQueue::Capture capture(int slot, bool waits_for_gradients) {
  const std::vector<OperatorBytes> operators = {{8, 8, 8}, {8, 8, 8}, {16, 16, 16}};
  return {.time = {Step(4), slot},
          .slots = 1,
          .position = RecordBytes(4),
          .chunks = chunks_of_gradients(operators, 4, 8),
          .waits_for_gradients = waits_for_gradients};
}

class CaptureQueueTest : public testing::Test {
 protected:
  // Reads what can be read. Slots and operators, in order.
  std::vector<std::pair<int, int>> read(int count = 100) {
    std::vector<std::pair<int, int>> read;
    for (; count > 0; --count) {
      const auto chunk = queue_.next(Rank(3));
      if (!chunk) break;
      EXPECT_EQ(chunk->owner, Rank(3));
      EXPECT_EQ(chunk->chunks, 5);
      read.emplace_back(chunk->slot, chunk->operator_index);
      queue_.on_begun(*chunk);
      queue_.on_read(*chunk);
    }
    return read;
  }

  CaptureQueue queue_;
};

TEST_F(CaptureQueueTest, ASnapshotIsReadInOrder) {
  queue_.begin(capture(0, false));
  EXPECT_FALSE(queue_.waits_for_gradients());
  using Chunk = std::pair<int, int>;
  EXPECT_THAT(read(2), ElementsAre(Chunk(0, -1), Chunk(0, 0)));
  EXPECT_FALSE(queue_.is_reading(0));
  EXPECT_TRUE(queue_.is_reading(2));
  EXPECT_THAT(read(), ElementsAre(Chunk(0, 1), Chunk(0, 2), Chunk(0, 2)));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(CaptureQueueTest, GradientsAreReadAsTheyAreReducedBehindTheSnapshot) {
  using Chunk = std::pair<int, int>;
  queue_.begin(capture(0, false));
  queue_.begin(capture(1, true));
  EXPECT_THAT(queue_.under_way(), ElementsAre(SlotTime{Step(4), 0}, SlotTime{Step(4), 1}));
  queue_.set_ready(2, nullptr);
  queue_.set_ready(2, nullptr);
  EXPECT_THAT(read(), ElementsAre(Chunk(0, -1), Chunk(0, 0), Chunk(0, 1), Chunk(0, 2), Chunk(0, 2),
                                  Chunk(1, -1), Chunk(1, 2), Chunk(1, 2)));
  EXPECT_THAT(queue_.under_way(), ElementsAre(SlotTime{Step(4), 1}));
  EXPECT_FALSE(queue_.next(Rank(3))) << "nothing else is reduced";
  queue_.set_ready(0, nullptr);
  EXPECT_THAT(read(), ElementsAre(Chunk(1, 0)));
  EXPECT_TRUE(queue_.is_reading(1));
  queue_.set_ready(1, nullptr);
  const auto last = queue_.next(Rank(3));
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(queue_.position_of(*last).size(), 4);
  queue_.on_begun(*last);
  EXPECT_TRUE(queue_.on_read(*last)) << "the last of its capture";
  EXPECT_TRUE(queue_.empty());
}

TEST_F(CaptureQueueTest, SeveralChunksMayBeReadAtATime) {
  queue_.begin(capture(0, false));
  read(3);
  const auto first = queue_.next(Rank(3));
  ASSERT_TRUE(first.has_value());
  queue_.on_begun(*first);
  const auto second = queue_.next(Rank(3));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->operator_index, 2);
  EXPECT_NE(second->chunk, first->chunk);
  queue_.on_begun(*second);
  EXPECT_FALSE(queue_.next(Rank(3)));
  EXPECT_FALSE(queue_.on_read(*second));
  EXPECT_TRUE(queue_.is_reading(2)) << "the first is still on its way";
  EXPECT_TRUE(queue_.on_read(*first));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(CaptureQueueTest, GradientsAreThoseThatWereWrittenWhenTheyWereReady) {
  const WrittenState before = std::make_shared<int>(1), after = std::make_shared<int>(2);
  CaptureQueue::Capture gradients = capture(1, true);
  gradients.written = before;
  queue_.begin(std::move(gradients));
  read(1);
  queue_.set_ready(0, after);
  const auto chunk = queue_.next(Rank(3));
  ASSERT_TRUE(chunk.has_value());
  EXPECT_EQ(queue_.written(*chunk), after);
}

}  // namespace
}  // namespace evermoe
