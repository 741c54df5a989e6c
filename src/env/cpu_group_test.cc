#include "env/cpu_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "env/process.h"

namespace evermoe {
namespace {

constexpr char kFirstMounts[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";

TEST(CpuGroup, OfTheFirstVersionIsBelowItsMaker) {
  EXPECT_EQ(cpu_group_place("9:cpuset:/x\n2:cpu,cpuacct:/jobs/7\n0::/\n", kFirstMounts),
            (CpuGroupPlace{"/sys/fs/cgroup/cpu,cpuacct/jobs/7", true}));
  EXPECT_EQ(cpu_group_place("2:cpu,cpuacct:/\n", kFirstMounts),
            (CpuGroupPlace{"/sys/fs/cgroup/cpu,cpuacct", true}));
}

TEST(CpuGroup, AContainerSeesThePartBelowItsRoot) {
  EXPECT_EQ(cpu_group_place("2:cpu:/docker/1a/jobs\n",
                            "32 31 0:29 /docker/1a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"),
            (CpuGroupPlace{"/sys/fs/cgroup/cpu/jobs", true}));
}

TEST(CpuGroup, OfTheSecondVersionIsBesideItsMaker) {
  constexpr char mounts[] = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
  EXPECT_EQ(cpu_group_place("0::/user.slice/run.scope\n", mounts),
            (CpuGroupPlace{"/sys/fs/cgroup/user.slice", false}));
  EXPECT_EQ(cpu_group_place("0::/\n", mounts), (CpuGroupPlace{"/sys/fs/cgroup", false}));
  EXPECT_EQ(cpu_group_place("0::/\n", "22 1 0:5 / /proc rw - proc proc rw\n"), std::nullopt);
}

// Files of a folder, as a control group shows them.
class CpuGroupFolder : public testing::Test {
 protected:
  CpuGroupFolder() : root_(testing::TempDir() + "cpu-group") {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  const std::string root_;
};

TEST_F(CpuGroupFolder, IsRefusedWhereItHasNoControlOfCpus) {
  const auto group = CpuGroup::make({root_, true}, "node-1", 0.5);
  ASSERT_TRUE(absl::IsUnimplemented(group.status())) << group.status();
  const std::string said(group.status().message());
  EXPECT_NE(said.find("it takes root"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(root_ + "/node-1")) << "nothing is left behind";
  EXPECT_TRUE(absl::IsUnimplemented(CpuGroup::make({root_ + "/none", true}, "n", 1).status()));
}

TEST_F(CpuGroupFolder, AChildEntersBeforeItsProgramBegins) {
  std::ofstream(root_ + "/cgroup.procs").close();
  auto child = spawn({.program = "sh",
                      .arguments = {"-c", "test \"$(cat " + root_ + "/cgroup.procs)\" = 0"},
                      .cpu_group = root_ + "/cgroup.procs"});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE((*child)->wait(absl::Seconds(30)).value().ok());
  const auto refused = spawn({.program = "true", .cpu_group = root_ + "/none/cgroup.procs"});
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("cgroup.procs"), std::string::npos);
}

}  // namespace
}  // namespace evermoe
