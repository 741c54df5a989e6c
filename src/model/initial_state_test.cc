#include "model/initial_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/fingerprint.h"
#include "model/model_shape.h"

namespace evermoe {
namespace {

std::vector<float> whole(const OperatorSpec& spec, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(spec.flat_size), -1.0f);
  fill_initial_weights(spec, seed, {0, spec.flat_size}, values);
  return values;
}

OperatorSpec one_matrix(int64_t rows, int64_t columns, double std) {
  OperatorSpec spec;
  spec.name = "layer.0.gate";
  ParameterSpec parameter;
  parameter.name = "weight";
  parameter.shape = {rows, columns};
  parameter.init_std = std;
  spec.parameters = {parameter};
  spec.layout();
  return spec;
}

TEST(InitialStateTest, AnyRangeEqualsThatPartOfTheWhole) {
  const ModelShape shape = preset("gpt-moe-tiny").value();
  std::mt19937_64 random(7);
  for (const OperatorSpec& spec : model_operators(shape)) {
    const std::vector<float> all = whole(spec, 3);
    for (int trial = 0; trial < 5; ++trial) {
      const auto a = static_cast<int64_t>(random() % (spec.flat_size + 1));
      const auto b = static_cast<int64_t>(random() % (spec.flat_size + 1));
      const FlatRange range{std::min(a, b), std::max(a, b)};
      std::vector<float> part(static_cast<size_t>(range.size()), -1.0f);
      fill_initial_weights(spec, 3, range, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + range.begin)) << spec.name;
    }
  }
}

TEST(InitialStateTest, GapsAreZeroAndConstantsAreThemselves) {
  ModelShape shape = preset("gpt-moe-tiny").value();
  shape.experts = 3;
  for (const OperatorSpec& spec : model_operators(shape)) {
    std::vector<float> values = whole(spec, 1);
    for (const ParameterSpec& parameter : spec.parameters) {
      for (int64_t i = 0; i < parameter.numel(); ++i) {
        float& value = values[static_cast<size_t>(parameter.offset + i)];
        if (parameter.init_std == 0) {
          EXPECT_EQ(value, parameter.init_constant) << parameter.name;
        }
        value = 0;
      }
    }
    for (const float value : values) EXPECT_EQ(value, 0.0f) << spec.name;
  }
}

TEST(InitialStateTest, DeviatesHaveTheMomentsOfANormal) {
  const OperatorSpec spec = one_matrix(1000, 1000, 0.02);
  double sum = 0, squares = 0, fourths = 0, neighbours = 0, previous = 0, largest = 0;
  for (const float value : whole(spec, 11)) {
    const double z = value / 0.02;
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
    neighbours += z * previous;
    previous = z;
    largest = std::max(largest, std::abs(z));
  }
  // A million samples: standard errors are 0.001, 0.0014 and about 0.005. The fourth moment of
  // the sum of twelve uniforms is 3 - 0.1.
  EXPECT_NEAR(sum / 1e6, 0, 0.005);
  EXPECT_NEAR(squares / 1e6, 1, 0.007);
  EXPECT_NEAR(fourths / 1e6, 2.9, 0.025);
  EXPECT_NEAR(neighbours / 1e6, 0, 0.005);
  EXPECT_GT(largest, 4);
  EXPECT_LE(largest, 6);
}

TEST(InitialStateTest, SeedOperatorAndParameterNamesEachChangeTheValues) {
  const OperatorSpec spec = one_matrix(8, 64, 1);
  OperatorSpec other_operator = spec;
  other_operator.name = "layer.1.gate";
  OperatorSpec other_parameter = spec;
  other_parameter.parameters[0].name = "up.weight";
  const std::vector<float> values = whole(spec, 1);
  EXPECT_EQ(whole(spec, 1), values);
  for (const std::vector<float>& other :
       {whole(spec, 2), whole(other_operator, 1), whole(other_parameter, 1)}) {
    int equal = 0;
    for (size_t i = 0; i < values.size(); ++i) equal += values[i] == other[i];
    EXPECT_LE(equal, 1);
  }
}

// Bits that every machine must produce: a change here orphans every existing run.
TEST(InitialStateTest, BitsArePinned) {
  FingerprintStream stream;
  for (const OperatorSpec& spec : model_operators(preset("qwen-moe-tiny").value())) {
    const std::vector<float> values = whole(spec, 1);
    stream.update(std::as_bytes(std::span(values)));
  }
  EXPECT_EQ(to_hex(stream.finish()), "ba126b1737002661b01c4babba849fac");
}

}  // namespace
}  // namespace evermoe
