// Mistakes made on purpose, each in a process of its own, that AddressSanitizer must end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace evermoe {
namespace {

// What the compiler cannot see through: a mistake that it sees itself is an error already, and what
// nobody needs it does not read.
template <typename T>
volatile T* hidden(volatile T* pointer) {
  asm volatile("" : "+r"(pointer));
  return pointer;
}

int read_after_free() {
  auto owner = std::make_unique<int>(3);
  const volatile int* const left = hidden(owner.get());
  owner.reset();
  return *left;
}

int read_beyond_the_end() {
  std::vector<int> values(4);
  return hidden(values.data())[4];
}

[[gnu::noinline]] volatile int* address_of_a_local() {
  int local = 3;
  return hidden(&local);
}

// What is forgotten is found when the process ends.
void forget() {
  static_cast<void>(*hidden(new int(3)));
  std::exit(0);
}

TEST(AddressReportsDeathTest, MemoryIsReadAfterItsEnd) {
  EXPECT_DEATH(read_after_free(), "heap-use-after-free");
}
TEST(AddressReportsDeathTest, MemoryIsReadBeyondItsEnd) {
  EXPECT_DEATH(read_beyond_the_end(), "heap-buffer-overflow");
}
TEST(AddressReportsDeathTest, AStackFrameIsReadAfterItsEnd) {
  EXPECT_DEATH(static_cast<void>(*address_of_a_local()), "stack-use-after-return");
}
TEST(AddressReportsDeathTest, MemoryIsForgotten) {
  EXPECT_DEATH(forget(), "detected memory leaks");
}
TEST(AddressReportsDeathTest, AnElementIsReadBeyondTheLast) {
  const std::vector<int> values(4);
  size_t index = 5;
  EXPECT_DEATH(static_cast<void>(values[*hidden(&index)]), "Assertion");
}

}  // namespace
}  // namespace evermoe
