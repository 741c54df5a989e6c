#include <gtest/gtest.h>

#include "planner/cost/operator_work.h"

namespace evermoe {
namespace {

// The well-known 6 operations per active parameter and token, embeddings and norms aside.
TEST(OperatorWorkTest, AboutSixPerActiveParameter) {
  for (const char* name : {"mixtral-8x7b", "deepseek-moe-16b", "qwen2-57b-a14b"}) {
    ModelShape shape = preset(name).value();
    shape.sequence_length = 1;  // no attention to speak of
    const ParameterCounts counts = count_parameters(shape);
    const double embedding = static_cast<double>(shape.vocabulary * shape.hidden);
    const double per_parameter =
        step_work_per_token(shape) / (static_cast<double>(counts.active) - embedding);
    EXPECT_NEAR(per_parameter, 6, 0.03) << name;
  }
}

TEST(OperatorWorkTest, PartsOfABlock) {
  ModelShape shape;
  shape.hidden = 64;
  shape.heads = shape.kv_heads = 2;
  shape.head_dim = 32;
  shape.shared_hidden = 0;
  shape.sequence_length = 127;
  const auto operators = model_operators(shape);
  const OperatorWork block = operator_work(operators[1], shape);
  const double products = 2.0 * (3 * 64 * 64 + 64 * 64), attention = 4.0 * 64 * 64;
  EXPECT_EQ(block.forward, products + attention);
  EXPECT_EQ(block.input_gradient, products + 2 * attention);
  EXPECT_EQ(block.weight_gradient, products);
  EXPECT_EQ(operator_work(operators[0], shape).total(), 0);
}

}  // namespace
}  // namespace evermoe
