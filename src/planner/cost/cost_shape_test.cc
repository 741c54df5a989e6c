#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "config/job_config.h"
#include "planner/cost/cost_shape.h"

namespace evermoe {
namespace {

// The model's own paper: 671B parameters, 37B of them active, without the layer for multi-token
// prediction.
TEST(CostShapeTest, DeepSeekV3HasItsPublishedParameters) {
  const CostShape shape = cost_preset("deepseek-v3").value();
  const ParameterCounts counts = count_parameters(cost_operators(shape), shape);
  EXPECT_NEAR(static_cast<double>(counts.total), 671e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(counts.active), 37.5e9, 0.5e9);
  EXPECT_FALSE(cost_preset("mixtral-8x7b").has_value());
  // Trainable shapes are counted as the trainer counts them.
  const CostShape mixtral = preset("mixtral-8x7b").value();
  const ParameterCounts same = count_parameters(cost_operators(mixtral), mixtral),
                        trained = count_parameters(preset("mixtral-8x7b").value());
  EXPECT_EQ(same.total, trained.total);
  EXPECT_EQ(same.active, trained.active);
  EXPECT_EQ(same.experts, trained.experts);
}

TEST(CostShapeTest, TheTrainerRefusesItInOneLine) {
  const absl::Status refused =
      parse_config("[model]\npreset = \"deepseek-v3\"\n", "job.toml", ".", {}).status();
  EXPECT_EQ(exit_code(refused), 2);
  EXPECT_NE(refused.message().find("model.preset: found \"deepseek-v3\", allowed: "),
            std::string::npos)
      << refused;
  EXPECT_EQ(refused.message().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace evermoe
