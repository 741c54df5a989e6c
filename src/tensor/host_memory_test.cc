#include "tensor/host_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <thread>

namespace evermoe {
namespace {

constexpr size_t kBytes = size_t{96} << 20;

int64_t faults() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt;
}

// Takes memory, fills it and frees it: pages that the kernel has cleared for it.
int64_t faults_of_filling() {
  const int64_t before = faults();
  const auto block = std::make_unique_for_overwrite<volatile char[]>(kBytes);
  for (size_t i = 0; i < kBytes; i += 4096) block[i] = 1;
  return faults() - before;
}

TEST(HostMemoryTest, WhatIsFreedIsUsedAgainAlsoByAnotherThread) {
  keep_freed_memory();
  EXPECT_GT(faults_of_filling(), 0);
  EXPECT_LT(faults_of_filling(), 100);
  int64_t of_another = 0;
  std::thread([&] { of_another = faults_of_filling(); }).join();
  EXPECT_LT(of_another, 100);
}

}  // namespace
}  // namespace evermoe
