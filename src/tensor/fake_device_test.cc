// The device for tests is as strict as it says: what forgets to wait, or touches its memory from
// the host, is found out.
#include "tensor/fake_device_testing.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tensor/compute_device.h"
#include "tensor/device_copies.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

std::vector<float> values_of(const at::Tensor& tensor) {
  const HostReadable host(tensor);
  return {host.values<float>().begin(), host.values<float>().end()};
}

at::Tensor numbers(const std::vector<float>& values) {
  return at::tensor(values).to(fake_device());
}

TEST(FakeDeviceTest, ComputesWhatTheCpuDoes) {
  const at::Tensor a = at::arange(35.0f).sin().view({7, 5}),
                   b = at::arange(15.0f).cos().view({5, 3});
  const at::Tensor x = a.to(fake_device()).requires_grad_(true), y = b.to(fake_device());
  const at::Tensor ours = at::mm(x, y).softmax(-1).narrow(1, 1, 2).t().square();
  const at::Tensor leaf = a.clone().requires_grad_(true);
  const at::Tensor theirs = at::mm(leaf, b).softmax(-1).narrow(1, 1, 2).t().square();
  EXPECT_TRUE(at::equal(ours.cpu(), theirs));
  const BackwardOnThisThread on_this_thread;
  ours.sum().backward();
  theirs.sum().backward();
  EXPECT_TRUE(at::equal(x.grad().cpu(), leaf.grad()));
}

TEST(FakeDeviceDeathTest, TheHostCannotTouchItsMemory) {
  const at::Tensor x = numbers({1, 2});
  EXPECT_DEATH(static_cast<float*>(x.data_ptr())[0] = 3, "");
  EXPECT_DEATH(EXPECT_GT(static_cast<float*>(x.data_ptr())[0], 0), "");
}

TEST(FakeDeviceTest, WhatChangesMemoryInPlaceComesLate) {
  at::Tensor x = numbers({1, 2});
  values_of(x);
  ASSERT_EQ(late_operations(), 0);
  x.add_(1);
  EXPECT_EQ(late_operations(), 1);
  EXPECT_THAT(values_of(x), testing::ElementsAre(2, 3)) << "whoever reads on the same stream waits";
  EXPECT_EQ(late_operations(), 0);
}

TEST(FakeDeviceTest, AnotherStreamSeesOnlyWhatItHasWaitedFor) {
  const c10::impl::VirtualGuardImpl implementation(fake_device().type());
  at::Tensor x = numbers({1, 2});
  values_of(x);
  x.add_(1);
  {
    const c10::StreamGuard guard(implementation.getStreamFromGlobalPool(fake_device()));
    EXPECT_THAT(values_of(x), testing::ElementsAre(1, 2));
  }
  c10::Event event(fake_device().type());
  event.record(implementation.getDefaultStream(fake_device()));
  const c10::Stream waits = implementation.getStreamFromGlobalPool(fake_device());
  event.block(waits);
  const c10::StreamGuard guard(waits);
  EXPECT_THAT(values_of(x), testing::ElementsAre(2, 3));
}

TEST(FakeDeviceTest, ACopyThatNobodyWaitsForIsNotThere) {
  const at::Tensor x = numbers({1, 2});
  at::Tensor host = at::zeros({2});
  host.copy_(x, /*non_blocking=*/true);
  EXPECT_EQ(host[0].item<float>(), 0);
  const c10::impl::VirtualGuardImpl implementation(fake_device().type());
  implementation.synchronizeStream(implementation.getDefaultStream(fake_device()));
  EXPECT_EQ(host[0].item<float>(), 1);
}

// By a stream of its own: it has to wait for the kernels before.
TEST(FakeDeviceTest, BytesThatAreCopiedAreThoseThatTheKernelsBeforeHaveWritten) {
  at::Tensor x = numbers({1, 2, 3, 4});
  x.mul_(2);
  std::vector<float> host(2);
  copy_to_host(x, 4, std::as_writable_bytes(std::span(host)));
  EXPECT_THAT(host, testing::ElementsAre(4, 6));
  const std::vector<float> other = {-1, -2};
  copy_from_host(std::as_bytes(std::span(other)), x, 8);
  EXPECT_THAT(values_of(x), testing::ElementsAre(2, 4, -1, -2));
}

TEST(DeviceCopiesTest, AreOfTheMomentAndOfNothingLater) {
  at::Tensor x = numbers({1, 2, 3, 4});
  x.mul_(2);
  const DeviceMoment written(fake_device());
  x.mul_(2);
  std::vector<float> host(3);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(host));
  CopyToHost copy(written);
  copy.add(x, 4, bytes.first(8));
  copy.add(x, 0, bytes.subspan(8));
  EXPECT_THAT(host, testing::ElementsAre(0, 0, 0)) << "nobody has waited";
  copy.wait();
  EXPECT_THAT(host, testing::ElementsAre(4, 6, 2)) << "what is started later comes later";
  EXPECT_THAT(values_of(x), testing::ElementsAre(4, 8, 12, 16));
}

TEST(CopyMemoryTest, BlocksAreCutFromSlabsThatLiveAsLongAsThey) {
  CopyMemory memory(at::kCPU);
  constexpr size_t kBytes = size_t{20} << 20;
  std::vector<std::shared_ptr<std::byte[]>> blocks;
  for (int i = 0; i < 4; ++i) {  // three to a slab
    blocks.push_back(memory.take(kBytes));
    std::fill_n(blocks.back().get(), kBytes, std::byte(i));
  }
  EXPECT_EQ(blocks[1].get(), blocks[0].get() + kBytes);
  const auto whole = memory.take(CopyMemory::kSlabBytes), next = memory.take(1);
  whole[CopyMemory::kSlabBytes - 1] = next[0] = std::byte(9);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i][0], std::byte(i));
    EXPECT_EQ(blocks[i][kBytes - 1], std::byte(i));
  }
}

}  // namespace
}  // namespace evermoe
