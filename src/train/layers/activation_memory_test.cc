// What `evermoe inspect --config` expects a rank's activations to take is what a real step
// allocates.

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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

// What the second step of a job of one worker allocates at most beyond what it began with.
int64_t measured_peak(const JobConfig& config) {
  CountingAllocator& allocator = CountingAllocator::instance();
  allocator.install();
  const absl::Cleanup remove = [&] { allocator.remove(); };
  int64_t before = 0, peak = 0;
  TrainingCluster cluster("memory");
  EXPECT_EQ(cluster
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
  return peak - before;
}

void expect_as_counted(const std::string& style, const std::string& precision,
                       const std::string& recompute, std::vector<std::string> settings) {
  settings.insert(settings.end(), {"train.precision=" + precision, "train.recompute=" + recompute,
                                   "train.micro_batches=2", "train.micro_batch_size=4"});
  const JobConfig config = tiny_config(style, settings);
  const ActivationBytes expected =
      activation_bytes(config.model, {.micro_batch_size = 4,
                                      .element_bytes = compute_bytes(config.train.precision),
                                      .kept = kept_with(recompute),
                                      .end_layer = config.model.layers,
                                      .holds_head = true});
  const int64_t measured = measured_peak(config);
  EXPECT_NEAR(static_cast<double>(expected.peak()) / static_cast<double>(measured), 1, 0.1)
      << style << " " << precision << " " << recompute << " " << absl::StrJoin(settings, " ")
      << ": expected " << expected.kept << " kept and " << expected.working
      << " beside them, measured " << measured;
}

using MemoryCase =
    std::tuple<std::string, std::string, std::string>;  // style or shape, precision, recompute
std::string name_of(const testing::TestParamInfo<MemoryCase>& info) {
  const auto& [style, precision, recompute] = info.param;
  return absl::StrReplaceAll(absl::StrCat(style, "_", precision, "_", recompute), {{"-", "_"}});
}

class ActivationMemoryTest : public testing::TestWithParam<MemoryCase> {};

TEST_P(ActivationMemoryTest, IsAsCountedWithinATenth) {
  const auto& [style, precision, recompute] = GetParam();
  for (const int size : {1, 2}) {
    // CPUs without BF16 take ten times as long.
    if (precision != "fp32" && size > 1) continue;
    expect_as_counted(style, precision, recompute,
                      {"model.layers=6", absl::StrCat("model.hidden=", 128 * size),
                       absl::StrCat("model.sequence_length=", 64 * size)});
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, ActivationMemoryTest,
    testing::Combine(testing::Values("gpt-moe", "qwen-moe", "deepseek-moe", "mixtral"),
                     testing::Values("fp32"), testing::Values("none", "experts", "layer")),
    name_of);
INSTANTIATE_TEST_SUITE_P(Narrow, ActivationMemoryTest,
                         testing::Values(MemoryCase{"gpt-moe", "bf16", "none"},
                                         MemoryCase{"qwen-moe", "bf16", "none"},
                                         MemoryCase{"qwen-moe", "bf16", "experts"},
                                         MemoryCase{"deepseek-moe", "bf16", "layer"},
                                         MemoryCase{"mixtral", "bf16", "none"},
                                         MemoryCase{"gpt-moe", "fp8", "none"},
                                         MemoryCase{"qwen-moe", "fp8", "none"},
                                         MemoryCase{"deepseek-moe", "fp8", "layer"}),
                         name_of);

// Shapes that the arithmetic was not made with.
struct OtherShape {
  std::string style;
  std::vector<std::string> settings;
};
const std::map<std::string, OtherShape>& other_shapes() {
  static const auto* const shapes = new std::map<std::string, OtherShape>{
      {"wide",
       {"qwen-moe",
        {"model.hidden=512", "model.heads=8", "model.kv_heads=2", "model.head_dim=64",
         "model.experts=16", "model.top_k=4", "model.expert_hidden=128", "model.layers=3"}}},
      {"deep",
       {"mixtral",
        {"model.hidden=256", "model.heads=8", "model.kv_heads=1", "model.head_dim=32",
         "model.expert_hidden=384", "model.layers=12"}}},
      {"many_experts",
       {"deepseek-moe",
        {"model.hidden=256", "model.experts=32", "model.top_k=4", "model.expert_hidden=64",
         "model.shared_hidden=256", "model.layers=5", "model.sequence_length=128"}}},
      {"one_choice",
       {"gpt-moe",
        {"model.hidden=256", "model.top_k=1", "model.expert_hidden=512", "model.dense_hidden=1024",
         "model.layers=4", "model.heads=4", "model.kv_heads=4", "model.head_dim=64",
         "model.vocabulary=2048"}}}};
  return *shapes;
}

class OtherShapesTest : public testing::TestWithParam<MemoryCase> {};

TEST_P(OtherShapesTest, AreAsCountedWithinATenth) {
  const auto& [name, precision, recompute] = GetParam();
  const OtherShape& shape = other_shapes().at(name);
  expect_as_counted(shape.style, precision, recompute, shape.settings);
}
INSTANTIATE_TEST_SUITE_P(
    All, OtherShapesTest,
    testing::Combine(testing::Values("wide", "deep", "many_experts", "one_choice"),
                     testing::Values("fp32"), testing::Values("none", "experts", "layer")),
    name_of);
}  // namespace
}  // namespace evermoe
