// Activations that are computed again have the bits of those that are kept, whatever else goes on.

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

using States = std::map<std::string, at::Tensor>;

// A catch-up: parts of the operators become active step by step.
ActiveOperators active_in(int step, size_t operators) {
  ActiveOperators active(operators, true);
  for (size_t i = 0; i < operators; ++i)
    active[i] = step > 2 || (i * 7 + 3) % 5 < static_cast<size_t>(2 * step);
  return active;
}

States trained(const std::string& style, const std::vector<std::string>& settings) {
  TrainingCluster cluster("recompute");
  std::mutex mutex;
  States states;
  const absl::Status status =
      cluster
          .run(tiny_config(style, settings),
               [&](TrainingRank& self) -> absl::Status {
                 RETURN_IF_ERROR(self.steps(1));
                 for (int step = 0; step < 4; ++step)
                   RETURN_IF_ERROR(self.step(active_in(step, self.all_active().size())));
                 const std::lock_guard lock(mutex);
                 for (OperatorState* const state : self.trainer().operator_states()) {
                   const std::string name =
                       absl::StrCat(self.rank().value, "/", state->spec().name);
                   states[name + "/gradient"] = state->shard_gradient().clone();
                   states[name + "/master"] = state->master().clone();
                 }
                 return absl::OkStatus();
               })
          .status;
  EXPECT_TRUE(status.ok()) << status;
  return states;
}

using Case = std::tuple<std::string, std::string>;  // style, precision
using Sizes = std::vector<const char*>;             // of the gradients that are put off
std::string name_of(const testing::TestParamInfo<Case>& info) {
  return absl::StrReplaceAll(absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param)),
                             {{"-", "_"}});
}

class RecomputeTest : public testing::TestWithParam<Case> {
 protected:
  void expect_the_bits_of_kept_activations(const Sizes& deferred,
                                           const std::vector<std::string>& more = {});
};

void RecomputeTest::expect_the_bits_of_kept_activations(const Sizes& deferred,
                                                        const std::vector<std::string>& more) {
  const auto& [style, precision] = GetParam();
  const auto train = [&](const std::string& recompute, const std::string& bytes) {
    std::vector<std::string> settings = {"train.precision=" + precision,
                                         "train.recompute=" + recompute,
                                         "train.deferred_bytes=" + bytes,
                                         "train.micro_batches=5",
                                         "train.micro_batch_size=1",
                                         "model.sequence_length=16",
                                         "parallel.stages=2",
                                         "parallel.lanes=[2, 3]",
                                         "parallel.expert_replicas=2"};
    settings.insert(settings.end(), more.begin(), more.end());
    return trained(style, settings);
  };
  const States kept = train("none", "256MiB");
  ASSERT_FALSE(kept.empty());
  for (const char* recompute : {"experts", "layer"}) {
    for (const char* bytes : deferred) {
      for (const auto& [name, state] : train(recompute, bytes)) {
        EXPECT_TRUE(at::equal(state, kept.at(name))) << name << ", " << recompute << ", " << bytes;
      }
    }
  }
}

TEST_P(RecomputeTest, HasTheBitsOfKeptActivations) {
  expect_the_bits_of_kept_activations({"100KiB"});
}
INSTANTIATE_TEST_SUITE_P(All, RecomputeTest,
                         testing::Combine(testing::Values("gpt-moe", "qwen-moe", "deepseek-moe",
                                                          "mixtral"),
                                          testing::Values("fp32", "bf16", "fp16", "fp64", "fp8")),
                         name_of);

// What is computed again goes by the same draw.
class RecomputeDrawnTest : public RecomputeTest {};
TEST_P(RecomputeDrawnTest, HasTheBitsOfKeptActivations) {
  expect_the_bits_of_kept_activations(
      {"100KiB"},
      {"model.routing=synthetic", "model.routing_skew=0.5", "model.routing_drift_steps=2"});
}
INSTANTIATE_TEST_SUITE_P(All, RecomputeDrawnTest,
                         testing::Values(Case{"qwen-moe", "fp32"}, Case{"mixtral", "fp8"}),
                         name_of);

class RecomputeAndDeferTest : public RecomputeTest {};
TEST_P(RecomputeAndDeferTest, HasTheBitsOfKeptActivations) {
  expect_the_bits_of_kept_activations({"0B", "256MiB"});
}
INSTANTIATE_TEST_SUITE_P(All, RecomputeAndDeferTest,
                         testing::Combine(testing::Values("qwen-moe", "deepseek-moe"),
                                          testing::Values("fp32", "bf16", "fp8")),
                         name_of);

}  // namespace
}  // namespace evermoe
