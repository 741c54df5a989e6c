// A device changes no bit of what is computed on it: the fake device, whose kernels are the CPU's,
// comes to the CPU's bits, and whoever reads without waiting, or from host memory, is found out.
//
// CTest runs other tests of the trainer on it as a whole (EVERMOE_TEST_DEVICE=fake).

#include <gtest/gtest.h>

#include <algorithm>

#include "tensor/fake_device_testing.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

JobConfig device_job(const std::string& style, std::vector<std::string> settings) {
  settings.insert(settings.begin(),
                  {"train.micro_batches=5", "train.micro_batch_size=1", "train.steps=4",
                   "train.schedule_steps=4", "model.sequence_length=16", "checkpoint.every_steps=2",
                   "evaluate.every_steps=2", "evaluate.micro_batches=3", "parallel.stages=2",
                   "parallel.lanes=[2, 3]"});
  return tiny_config(style, settings);
}

ClusterResult trained_on(at::Device device, const std::string& style,
                         const std::vector<std::string>& settings) {
  TrainingCluster cluster("device");
  cluster.set_device(device);
  return cluster.run_job(device_job(style, settings));
}

class DeviceTest : public testing::TestWithParam<std::string> {};

TEST_P(DeviceTest, ComesToTheBitsOfTheCpu) {
  for (const std::string types : {"fp32", "fp16", "fp64", "fp32/fp32/fp8"}) {
    const std::vector<std::string> settings = with_types(types, {});
    const ClusterResult expected = trained_on(at::kCPU, GetParam(), settings);
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    const ClusterResult ours = trained_on(fake_device(), GetParam(), settings);
    ASSERT_TRUE(ours.status.ok()) << ours.status;
    EXPECT_EQ(ours.digest, expected.digest) << types;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTest,
                         testing::Values("gpt-moe", "qwen-moe", "deepseek-moe", "mixtral"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(DeviceTest, ACheckpointGoesOnOnAnotherDevice) {
  const ClusterResult expected = trained_on(at::kCPU, "qwen-moe", {});
  const at::Device devices[] = {at::kCPU, fake_device()};
  for (const size_t first : {0u, 1u}) {
    TrainingCluster cluster("another_device");
    cluster.set_device(devices[first]);
    ASSERT_TRUE(cluster.run_job(device_job("qwen-moe", {"train.steps=2"})).status.ok());
    cluster.set_device(devices[1 - first]);
    const ClusterResult ours = cluster.run_job(device_job("qwen-moe", {}));
    ASSERT_TRUE(ours.status.ok()) << ours.status;
    EXPECT_EQ(ours.resumed_from, Step(2));
    EXPECT_EQ(ours.digest, expected.digest);
  }
}

// BF16 has kernels of its own there: all experts in one product.
TEST(DeviceTest, GroupedProductsAreThoseOfEachExpert) {
  const std::vector<std::string> bf16 = {"train.precision=bf16"};
  const ClusterResult ours = trained_on(fake_device(), "qwen-moe", bf16);
  ASSERT_TRUE(ours.status.ok()) << ours.status;
  const ClusterResult each = trained_on(at::kCPU, "qwen-moe", bf16);
  for (const auto& [name, weights] : each.weights) {
    const at::Tensor difference = (ours.weights.at(name) - weights).abs();
    EXPECT_LT(difference.max().item<double>(), 2e-3) << name;
  }
}

}  // namespace
}  // namespace evermoe
