#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/check.h"
#include "base/crash_trace.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/fingerprint.h"
#include "base/mutex.h"
#include "base/split_mix.h"

namespace evermoe {
namespace {

TEST(ErrorTest, PeerLostNamesTheRankAndKeepsItWhenAnnotated) {
  const absl::Status lost = annotate(PeerLost(Rank(3), "connection closed"), "step 7");
  EXPECT_TRUE(absl::IsUnavailable(lost));
  EXPECT_EQ(accused_rank(lost), Rank(3));
  EXPECT_EQ(lost.message(), "step 7: connection closed");
  EXPECT_FALSE(accused_rank(Timeout("nobody")).has_value());
}

TEST(ErrorTest, ExitCodeSeparatesBadInputFromTheRest) {
  EXPECT_EQ(exit_code(absl::OkStatus()), 0);
  EXPECT_EQ(exit_code(InvalidInput("x")), 2);
  EXPECT_EQ(exit_code(Corrupt("x")), 1);
  EXPECT_EQ(exit_code(Hopeless("x")), 4);
}

TEST(ErrorTest, GuardUnwrapsStatusErrorWithoutLoss) {
  const absl::Status status =
      guard([]() -> absl::Status { throw StatusError(PeerLost(Rank(1), "gone")); });
  EXPECT_EQ(accused_rank(status), Rank(1));
  EXPECT_TRUE(absl::IsInternal(guard([]() -> absl::Status { throw std::runtime_error("odd"); })));
  EXPECT_TRUE(absl::IsResourceExhausted(guard([]() -> absl::Status { throw std::bad_alloc(); })));
}

[[gnu::noinline]] void fails_here(int value) { CHECK(value == 2) << "not so"; }

// In a process of its own: the handler stays.
TEST(CrashTraceDeathTest, TheStackIsWrittenBeforeTheProcessDiesAsItWouldHave) {
  const auto crash = [] {
    trace_crashes("base_test");
    fails_here(3);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGABRT),
              "not so\ncrashed: process .*, of signal 6, at\n(.*\n)*.*fails_here");
}

TEST(CheckDeathTest, PrintsTheFactsAndAborts) {
  const int lanes = 3;
  EXPECT_DEATH(CHECK(lanes == 2) << "lanes=" << lanes, "CHECK failed: lanes == 2 lanes=3");
}

TEST(CondVarTest, AWaitEndsWithTheNewsOrAtItsTimeout) {
  Mutex mutex;
  CondVar changed;
  bool is_done = false;
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(changed.wait_for(lock, absl::Milliseconds(1), [&] { return is_done; }));
  }
  std::thread other([&] {
    const MutexLock lock(mutex);
    is_done = true;
    changed.notify_all();
  });
  {
    MutexLock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, absl::InfiniteDuration(), [&] { return is_done; }));
  }
  other.join();
}

TEST(FingerprintTest, HexRoundTripsAndRefusesAnythingElse) {
  const std::string text = "mixture";
  const Fingerprint value = fingerprint(std::as_bytes(std::span(text.data(), text.size())));
  EXPECT_EQ(fingerprint_from_hex(to_hex(value)), value);
  EXPECT_FALSE(fingerprint_from_hex("12").has_value());
  EXPECT_FALSE(fingerprint_from_hex(std::string(32, 'G')).has_value());
}

TEST(FingerprintTest, StreamEqualsConcatenation) {
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  FingerprintStream stream;
  stream.update(std::span(bytes).first(13));
  stream.update(std::span(bytes).subspan(13));
  EXPECT_EQ(stream.finish(), fingerprint(bytes));
}

// Of its authors' program.
TEST(SplitMixTest, NumbersAreThePublishedOnes) {
  constexpr uint64_t kExpected[] = {6457827717110365317u, 3203168211198807973u,
                                    9817491932198370423u, 4593380528125082431u,
                                    16408922859458223821u};
  for (uint64_t n = 0; n < 5; ++n)
    EXPECT_EQ(split_mix(1234567 + (n + 1) * kSplitMixStep), kExpected[n]);
}

TEST(FaultPointTest, CountsAndDisarms) {
  std::vector<int64_t> seen;
  arm_fault_points([&](const char* point, int64_t reached_before) {
    if (std::string(point) == "here") seen.push_back(reached_before);
  });
  fault_point("here");
  fault_point("elsewhere");
  fault_point("here");
  arm_fault_points(nullptr);
  fault_point("here");
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1}));
}

}  // namespace
}  // namespace evermoe
