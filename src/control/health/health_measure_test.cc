// The measurement with real files and sockets.
#include "control/health/health_measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "control/health/available_memory.h"
#include "control/health/loopback_trial.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::Eq;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

class Measured : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(real_files().create_directories(own_).ok());
    ASSERT_TRUE(real_files().create_directories(shared_).ok());
  }
  void TearDown() override { (void)remove_tree(real_files(), root_); }
  void write(const std::string& path, const std::string& content) {
    const std::string full = root_ + path;
    ASSERT_TRUE(real_files().create_directories(parent_directory(full)).ok());
    ASSERT_TRUE(write_file_synced(real_files(), full, content).ok());
  }
  std::vector<std::string> complaints(const HealthReaders& readers) {
    parts_.clear();
    const auto note = [this](const std::string& part) { parts_.push_back(part); };
    return judge(measure_health(readers, {own_, shared_}, note), {.memory_bytes = 1000});
  }

  const std::string root_ = testing::TempDir() + "/health-" + std::to_string(::getpid());
  const std::string own_ = root_ + "/own", shared_ = root_ + "/shared";
  std::vector<std::string> parts_;
};

TEST_F(Measured, ThisMachineIsFitAndNothingIsLeftBehind) {
  EXPECT_THAT(complaints(real_readers()), IsEmpty());
  EXPECT_THAT(parts_, ElementsAre("memory", "disk of " + own_, "disk of " + shared_,
                                  "network of the machine itself"));
  EXPECT_THAT(real_files().list(own_).value(), IsEmpty());
  EXPECT_THAT(real_files().list(shared_).value(), IsEmpty());
}

TEST_F(Measured, AFolderThatIsGoneIsNamed) {
  ASSERT_TRUE(remove_tree(real_files(), shared_).ok());
  EXPECT_THAT(complaints(real_readers()),
              ElementsAre(HasSubstr("disk: a small file in " + shared_ + " cannot be written")));
}

TEST_F(Measured, EveryReadingIsAsked) {
  class StandingClock final : public Clock {
    absl::Duration now() override { return absl::Seconds(5); }
    void sleep_until(absl::Duration) override {}
    absl::Duration thread_time() override { return absl::ZeroDuration(); }
    absl::Time wall_now() override { return absl::UnixEpoch(); }
  } clock;
  HealthReaders readers = real_readers();
  readers.memory = [] { return 999; };
  readers.clock = &clock;
  readers.tcp = [] { return Internal("no network"); };
  readers.local_socket = [](const std::string&) { return Internal("no sockets"); };
  EXPECT_THAT(complaints(readers),
              ElementsAre(HasSubstr("memory"), HasSubstr("127.0.0.1: no network"),
                          HasSubstr("AF_UNIX: no sockets"), HasSubstr("clock stands still")));
}

// ---- memory

constexpr char kMeminfo[] = "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n";

TEST_F(Measured, WithoutControlGroupsTheKernelKnows) {
  EXPECT_EQ(available_memory(root_), std::nullopt);
  write("/proc/meminfo", kMeminfo);
  EXPECT_THAT(available_memory(root_), Optional(Eq(8000 * 1024)));
  EXPECT_NE(available_memory(), std::nullopt);
}

TEST_F(Measured, AControlGroupAboveBindsTooAndThePageCacheIsFree) {
  write("/proc/meminfo", kMeminfo);
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/step/memory.current", "4000\n");
  EXPECT_THAT(available_memory(root_), Optional(Eq(8000 * 1024)));
  write("/sys/fs/cgroup/job/memory.max", "5000\n");
  write("/sys/fs/cgroup/job/memory.current", "4990\n");
  EXPECT_THAT(available_memory(root_), Optional(Eq(10)));
  write("/sys/fs/cgroup/job/memory.stat",
        "anon 600\ninactive_file 3000\nactive_file 1000\nactive_anon 5\n");
  EXPECT_THAT(available_memory(root_), Optional(Eq(4010)));
}

TEST_F(Measured, ControlGroupsOfVersion1) {
  write("/proc/meminfo", kMeminfo);
  write("/proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/slurm/job_7\n0::/elsewhere\n");
  write("/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "3000\n");
  write("/sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "2000\n");
  write("/sys/fs/cgroup/memory/slurm/job_7/memory.stat",
        "cache 5\ntotal_inactive_file 100\ntotal_active_file 20\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "7000\n");
  EXPECT_THAT(available_memory(root_), Optional(Eq(1120)));
}

// ---- the machine itself

TEST(LoopbackTrial, AddressesThatAreNotOfThisMachine) {
  EXPECT_TRUE(try_tcp_loopback("127.0.0.1").ok());
  EXPECT_THAT(std::string(try_tcp_loopback("203.0.113.7").message()), HasSubstr("bind"));
}

TEST(LoopbackTrial, AFolderWithoutRoomForSockets) {
  EXPECT_THAT(std::string(try_unix_loopback("/proc").message()), HasSubstr("bind"));
  EXPECT_FALSE(try_unix_loopback("/tmp/" + std::string(120, 'x')).ok());
}

}  // namespace
}  // namespace evermoe
