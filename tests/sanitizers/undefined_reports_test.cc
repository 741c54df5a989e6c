// Mistakes made on purpose, each in a process of its own, that UndefinedBehaviorSanitizer must end.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace evermoe {
namespace {

// What the compiler cannot know: a mistake that it sees itself is an error already.
template <typename T>
T unknown(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

TEST(UndefinedReportsDeathTest, ASumOverflows) {
  EXPECT_DEATH(unknown(unknown(std::numeric_limits<int>::max()) + unknown(1)),
               "signed integer overflow");
}
TEST(UndefinedReportsDeathTest, AShiftIsTooFar) {
  EXPECT_DEATH(unknown(int64_t{1} << unknown(64)), "shift exponent 64 is too large");
}
TEST(UndefinedReportsDeathTest, AnAddressIsNotAligned) {
  alignas(8) static const char bytes[16] = {};
  EXPECT_DEATH(static_cast<void>(*reinterpret_cast<const volatile int64_t*>(unknown(bytes + 1))),
               "misaligned address");
}
TEST(UndefinedReportsDeathTest, AnElementIsReadBeyondTheLast) {
  const std::vector<int> values(4);
  EXPECT_DEATH(static_cast<void>(values[unknown(size_t{5})]), "Assertion");
}

}  // namespace
}  // namespace evermoe
