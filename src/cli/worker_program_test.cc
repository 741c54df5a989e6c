#include "cli/worker_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace evermoe {
namespace {

std::string found(const WorkerSearch& search, const std::set<std::string>& programs) {
  const auto worker =
      find_worker(search, [&](const std::string& path) { return programs.contains(path); });
  EXPECT_TRUE(worker.ok() || absl::IsInvalidArgument(worker.status()));
  return worker.ok() ? *worker : std::string(worker.status().message());
}

const std::set<std::string> kAll = {"/o", "/e", "/usr/bin/evermoe-worker",
                                    "/usr/libexec/evermoe/evermoe-worker"};

TEST(WorkerProgramTest, TheFirstPlaceWins) {
  EXPECT_EQ(found({"/o", "/e", "/usr/bin"}, kAll), "/o");
  EXPECT_EQ(found({"", "/e", "/usr/bin"}, kAll), "/e");
  EXPECT_EQ(found({"", "", "/usr/bin"}, kAll), "/usr/bin/evermoe-worker");
  EXPECT_EQ(found({"", "", "/usr/bin"}, {"/usr/libexec/evermoe/evermoe-worker"}),
            "/usr/libexec/evermoe/evermoe-worker");
}

TEST(WorkerProgramTest, APlaceNamedByHandIsTheOnlyOne) {
  EXPECT_EQ(found({"/none", "/e", "/usr/bin"}, kAll),
            "--worker: found /none, which is no program, allowed: the path of evermoe-worker");
  EXPECT_EQ(
      found({"", "/none", "/usr/bin"}, kAll),
      "EVERMOE_WORKER: found /none, which is no program, allowed: the path of evermoe-worker");
}

TEST(WorkerProgramTest, AMissingOneIsSaidWithThePlacesThatWereTried) {
  EXPECT_EQ(found({"", "", "/usr/bin"}, {}),
            "the program of the workers is missing: found neither /usr/bin/evermoe-worker nor "
            "/usr/libexec/evermoe/evermoe-worker; build it with -DEVERMOE_TORCH=ON, or name it "
            "with EVERMOE_WORKER");
}

}  // namespace
}  // namespace evermoe
