// What `evermoe inspect --config` expects a rank's activations to take is what a real step
// allocates.

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "model/activation_bytes.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

// Counts the memory of every tensor that is made while it is installed. Lives for ever, because
// tensors may.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& instance() {
    static CountingAllocator* const allocator = new CountingAllocator;
    return *allocator;
  }
  void install() { c10::SetCPUAllocator(this, kPriority); }
  void remove() { c10::SetCPUAllocator(&inner_, kPriority); }

  c10::DataPtr allocate(size_t bytes) override {
    void* const memory = inner_.raw_allocate(bytes);
    const std::lock_guard lock(mutex_);
    if (memory != nullptr) sizes_[memory] = static_cast<int64_t>(bytes);
    live_ += static_cast<int64_t>(bytes);
    peak_ = std::max(peak_, live_);
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* into, const void* from, size_t bytes) const override {
    default_copy_data(into, from, bytes);
  }

  int64_t live() {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  void forget_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = live_;
  }
  int64_t peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  static constexpr uint8_t kPriority = 100;
  CountingAllocator() : inner_(*c10::GetCPUAllocator()) {}
  static void release(void* memory) {
    if (memory == nullptr) return;
    CountingAllocator& self = instance();
    {
      const std::lock_guard lock(self.mutex_);
      const auto size = self.sizes_.extract(memory);
      self.live_ -= size.mapped();
    }
    self.inner_.raw_deallocate(memory);
  }

  c10::Allocator& inner_;
  std::mutex mutex_;  // guards what follows
  std::unordered_map<void*, int64_t> sizes_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

KeptActivations kept_with(const std::string& recompute) {
  if (recompute == "experts") return KeptActivations::kOutsideExperts;
  return recompute == "layer" ? KeptActivations::kLayerInputs : KeptActivations::kAll;
}

using MemoryCase =
    std::tuple<std::string, std::string, std::string>;  // style, precision, recompute
class ActivationMemoryTest : public testing::TestWithParam<MemoryCase> {};

TEST_P(ActivationMemoryTest, IsAsCountedWithinATenth) {
  const auto& [style, precision, recompute] = GetParam();
  CountingAllocator& allocator = CountingAllocator::instance();
  for (const int size : {1, 2}) {
    const JobConfig config =
        tiny_config(style, {"train.precision=" + precision, "train.recompute=" + recompute,
                            "train.micro_batches=2", "train.micro_batch_size=4", "model.layers=6",
                            absl::StrCat("model.hidden=", 128 * size),
                            absl::StrCat("model.sequence_length=", 64 * size)});
    const ActivationBytes expected =
        activation_bytes(config.model, {.micro_batch_size = 4,
                                        .element_bytes = compute_bytes(config.train.precision),
                                        .kept = kept_with(recompute),
                                        .end_layer = config.model.layers,
                                        .holds_head = true});
    allocator.install();
    const absl::Cleanup remove = [&] { allocator.remove(); };
    int64_t before = 0, peak = 0;
    {
      TrainingCluster cluster("memory");
      ASSERT_EQ(cluster
                    .run(config,
                         [&](TrainingRank& self) -> absl::Status {
                           RETURN_IF_ERROR(self.steps(1));
                           before = allocator.live();
                           allocator.forget_peak();
                           const absl::Status trained = self.train(self.all_active()).status();
                           peak = allocator.peak();
                           return trained;
                         })
                    .status,
                absl::OkStatus());
    }
    const auto measured = static_cast<double>(peak - before);
    EXPECT_NEAR(static_cast<double>(expected.peak()) / measured, 1, 0.1)
        << "size " << size << ": expected " << expected.kept << " kept and " << expected.working
        << " beside them, measured " << measured;
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, ActivationMemoryTest,
    testing::Combine(testing::Values("gpt-moe", "qwen-moe", "deepseek-moe", "mixtral"),
                     testing::Values("fp32", "bf16"), testing::Values("none", "experts", "layer")),
    [](const auto& info) {
      std::string name =
          std::get<0>(info.param) + "_" + std::get<1>(info.param) + "_" + std::get<2>(info.param);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace evermoe
