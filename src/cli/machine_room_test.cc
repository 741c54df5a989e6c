#include "cli/commands/machine_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace evermoe {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

std::string refusal(const std::string& config, const MachineRoom& room) {
  const absl::Status status = check_room(parse_config(config, "test", "/", {}).value(), room);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(MachineRoomTest, AnOrdinaryJobFits) {
  EXPECT_EQ(refusal("[run]\nnodes = 4\nspares = 1\n",
                    {.memory_bytes = 2 * kGiB, .threads = 1000, .cores = 2}),
            "");
}

TEST(MachineRoomTest, MemoryIsCountedOverAllProcesses) {
  const std::string config =
      "[model]\npreset = \"mixtral-8x7b\"\n[parallel]\nlanes = 2\n[run]\nnodes = 2\n";
  // 47 billion parameters in FP32: 16 bytes each, non-experts on both lanes.
  EXPECT_THAT(
      refusal(config, {.memory_bytes = 64 * kGiB, .threads = 1000, .cores = 2}),
      testing::MatchesRegex("too large for this machine: run.nodes \\+ run.spares = 2 agents, 1 "
                            "controller and 2 workers need at least 3 x 2 MiB \\+ "
                            "2 x 80 MiB \\+ [0-9.]+ GB for the model = [0-9.]+ GB, allowed: the "
                            "68.7 GB of memory that are available"));
  EXPECT_EQ(refusal(config, {.memory_bytes = 1024 * kGiB, .threads = 1000, .cores = 2}), "");
}

TEST(MachineRoomTest, StateOnGpusTakesNoHostMemory) {
  const MachineRoom room{.memory_bytes = 64 * kGiB, .threads = 1000, .cores = 2};
  const std::string config =
      "[model]\npreset = \"mixtral-8x7b\"\n[parallel]\nlanes = 2\n[run]\nnodes = 2\n[train]\n";
  EXPECT_EQ(refusal(config + "device = \"cuda\"\n", room), "");
  EXPECT_NE(refusal(config + "device = \"cpu\"\n", room), "");
}

TEST(MachineRoomTest, ANodeNeedsTheMemoryOfItsRoles) {
  const auto need = [](const std::string& config) {
    return least_memory_of_node(parse_config(config, "test", "/", {}).value());
  };
  const std::string lanes = "[parallel]\nlanes = 4\n[run]\n";
  const int64_t one = need(lanes + "nodes = 4\n"), two = need(lanes + "nodes = 2\n");
  EXPECT_GT(one, int64_t{80} << 20);
  EXPECT_EQ(need(lanes + "nodes = 3\n"), two) << "some node begins with two";
  EXPECT_GT(two, one + (int64_t{80} << 20) - 1);
  EXPECT_LT(two, 2 * one);
}

TEST(MachineRoomTest, ThreadsAreCounted) {
  EXPECT_EQ(
      refusal("[run]\nnodes = 4096\n", {.memory_bytes = 100 * kGiB, .threads = 32768, .cores = 2}),
      "too large for this machine: run.nodes + run.spares = 4096 agents, 1 controller and 1 worker "
      "need 4097 x 11 + 1 x 12 = 45079 threads, "
      "allowed: the 32768 that the system lets run");
}

// With less its threads do not start, and it says nothing.
TEST(MachineRoomTest, AddressSpaceIsCountedForOneWorker) {
  MachineRoom room{.memory_bytes = 100 * kGiB, .threads = 1000, .cores = 2};
  room.address_bytes = 716'800 * 1024;
  EXPECT_THAT(refusal("[run]\nnodes = 4\n", room),
              testing::MatchesRegex("too large for a process here: a worker maps at least 1.5 GB, "
                                    "allowed: the 0.7 GB of address space that the shell's limit "
                                    "leaves \\(ulimit -v\\)"));
  room.address_bytes = 2 * kGiB;
  EXPECT_EQ(refusal("[run]\nnodes = 4\n", room), "");
}

TEST(MachineRoomTest, TheTimeToStartIsCounted) {
  const std::string config = "[run]\nnodes = 3000\nspares = 1000\n";
  EXPECT_EQ(refusal(config, {.memory_bytes = 100 * kGiB, .threads = 1 << 20, .cores = 2}),
            "too large for this machine: run.nodes + run.spares = 4000 agents, 1 controller and 1 "
            "worker take (4001 x 0.05 s + 1 x 0.5 s) / 2 cores "
            "= 100 s to start, allowed: at most 60 s");
  EXPECT_EQ(refusal(config, {.memory_bytes = 100 * kGiB, .threads = 1 << 20, .cores = 64}), "");
}

TEST(MachineRoomTest, ThisMachineHasSome) {
  const MachineRoom room = machine_room();
  EXPECT_GT(room.memory_bytes, 64 << 20);
  EXPECT_LT(room.memory_bytes, int64_t{1} << 50);
  EXPECT_GT(room.threads, 100);
  EXPECT_LT(room.threads, int64_t{1} << 32);
  EXPECT_GE(room.cores, 1);
}

}  // namespace
}  // namespace evermoe
