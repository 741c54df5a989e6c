#include "control/health/health_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>

namespace evermoe {
namespace {

using testing::ElementsAre;

constexpr absl::Duration kAnswerMax = absl::Minutes(1);

TEST(HealthSchedule, ABadMachineIsMeasuredAgainAfterPausesThatDouble) {
  HealthSchedule schedule;
  EXPECT_LT(schedule.due(), absl::ZeroDuration()) << "at once";
  std::vector<double> pauses;
  for (int i = 0; i < 7; ++i) {
    schedule.on_verdict(absl::ZeroDuration(), /*is_fit=*/false);
    pauses.push_back(absl::ToDoubleSeconds(schedule.due()));
  }
  EXPECT_THAT(pauses, ElementsAre(2, 4, 8, 10, 10, 10, 10));
  schedule.on_verdict(absl::Seconds(100), /*is_fit=*/true);
  EXPECT_EQ(schedule.due(), absl::Seconds(160));
  schedule.on_verdict(absl::Seconds(160), /*is_fit=*/false);
  EXPECT_EQ(schedule.due(), absl::Seconds(162)) << "it begins anew";
}

NodeHealth with_memory(int64_t bytes) {
  NodeHealth health;
  health.memory_bytes = bytes;
  return health;
}

// What a thread has measured has come.
bool comes(const HealthWatch& watch) {
  pollfd waiting{watch.fd(), POLLIN, 0};
  return ::poll(&waiting, 1, 60'000) == 1;
}

TEST(HealthWatch, MeasuresWhenItIsDue) {
  HealthWatch watch([](const auto&) { return with_memory(7); }, kAnswerMax);
  EXPECT_FALSE(watch.take(absl::ZeroDuration()));
  watch.look(absl::ZeroDuration());
  ASSERT_TRUE(comes(watch));
  EXPECT_EQ(watch.take(absl::ZeroDuration())->memory_bytes, 7);
  watch.on_verdict(absl::ZeroDuration(), /*is_fit=*/false);
  watch.look(absl::Seconds(1));
  EXPECT_FALSE(watch.take(absl::Minutes(10))) << "none is under way";
  watch.look(absl::Seconds(2));
  ASSERT_TRUE(comes(watch));
  EXPECT_TRUE(watch.take(absl::Seconds(2)));
}

// A measurement that goes on when it is told to.
struct Gate {
  Mutex mutex;
  CondVar changed;
  bool is_open ABSL_GUARDED_BY(mutex) = false;
  bool is_reached ABSL_GUARDED_BY(mutex) = false;

  void pass() {
    MutexLock lock(mutex);
    is_reached = true;
    changed.notify_all();
    changed.wait(lock, [this] {
      mutex.assert_held();
      return is_open;
    });
  }
  void wait_until_reached() {
    MutexLock lock(mutex);
    changed.wait(lock, [this] {
      mutex.assert_held();
      return is_reached;
    });
  }
  void open() {
    const MutexLock lock(mutex);
    is_open = true;
    changed.notify_all();
  }
};

TEST(HealthWatch, ADiskThatDoesNotAnswerIsNamedAndMayAnswerLater) {
  const auto gate = std::make_shared<Gate>();
  HealthWatch watch(
      [gate](const auto& on_part) {
        on_part("disk of /out");
        gate->pass();
        return with_memory(9);
      },
      kAnswerMax);
  watch.look(absl::ZeroDuration());
  gate->wait_until_reached();
  EXPECT_FALSE(watch.take(absl::Seconds(59)));
  EXPECT_EQ(watch.take(kAnswerMax)->unanswered, "disk of /out");
  EXPECT_FALSE(watch.take(kAnswerMax)) << "said once";
  watch.on_verdict(kAnswerMax, /*is_fit=*/false);
  watch.look(absl::Hours(1));
  EXPECT_FALSE(watch.take(absl::Hours(2))) << "no second one beside it";
  gate->open();
  ASSERT_TRUE(comes(watch));
  EXPECT_EQ(watch.take(absl::Hours(2))->memory_bytes, 9);
}

}  // namespace
}  // namespace evermoe
