#include "model/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace evermoe {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names(const std::vector<OperatorSpec>& operators) {
  std::vector<std::string> result;
  for (const OperatorSpec& spec : operators) result.push_back(spec.name);
  return result;
}

std::map<std::string, std::vector<int64_t>> parameters(const ModelShape& shape,
                                                       const std::string& name) {
  std::map<std::string, std::vector<int64_t>> result;
  for (const OperatorSpec& spec : model_operators(shape)) {
    if (spec.name != name) continue;
    for (const ParameterSpec& parameter : spec.parameters) result[parameter.name] = parameter.shape;
  }
  return result;
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

ModelShape three_layers() {
  ModelShape shape;
  shape.layers = 3;
  shape.experts = 2;
  shape.dense_first_layers = 1;
  return shape;
}

TEST(ModelShapeTest, OperatorsComeInCanonicalOrder) {
  EXPECT_THAT(names(model_operators(three_layers())),
              ElementsAre("embedding", "layer.0.block", "layer.1.block", "layer.1.gate",
                          "layer.1.expert.0", "layer.1.expert.1", "layer.2.block", "layer.2.gate",
                          "layer.2.expert.0", "layer.2.expert.1", "head"));
}

TEST(ModelShapeTest, EveryNthLayerIsMoe) {
  ModelShape shape;
  shape.layers = 6;
  shape.moe_every = 3;
  std::vector<int> gates;
  for (const OperatorSpec& spec : model_operators(shape)) {
    if (spec.kind == OperatorKind::kGate) gates.push_back(spec.layer);
  }
  EXPECT_THAT(gates, ElementsAre(2, 5));
}

TEST(ModelShapeTest, QwenPartsHaveTheDocumentedShapes) {
  ModelShape shape = with_style(three_layers(), "qwen-moe").value();
  shape.kv_heads = 2;
  EXPECT_EQ(parameters(shape, "embedding"), (Shapes{{"token.weight", {256, 128}}}));
  EXPECT_EQ(parameters(shape, "layer.0.block"), (Shapes{{"norm1.weight", {128}},
                                                        {"norm2.weight", {128}},
                                                        {"attention.qkv.weight", {256, 128}},
                                                        {"attention.qkv.bias", {256}},
                                                        {"attention.out.weight", {128, 128}},
                                                        {"ffn.up.weight", {512, 128}},
                                                        {"ffn.down.weight", {128, 256}}}));
  EXPECT_EQ(parameters(shape, "layer.1.block"), (Shapes{{"norm1.weight", {128}},
                                                        {"norm2.weight", {128}},
                                                        {"attention.qkv.weight", {256, 128}},
                                                        {"attention.qkv.bias", {256}},
                                                        {"attention.out.weight", {128, 128}},
                                                        {"shared.up.weight", {1024, 128}},
                                                        {"shared.down.weight", {128, 512}},
                                                        {"shared_gate.weight", {1, 128}}}));
  EXPECT_EQ(parameters(shape, "layer.1.gate"), (Shapes{{"weight", {2, 128}}}));
  EXPECT_EQ(parameters(shape, "layer.2.expert.1"),
            (Shapes{{"up.weight", {256, 128}}, {"down.weight", {128, 128}}}));
  EXPECT_EQ(parameters(shape, "head"),
            (Shapes{{"norm.weight", {128}}, {"output.weight", {256, 128}}}));
}

TEST(ModelShapeTest, GptPartsHaveTheDocumentedShapes) {
  const ModelShape shape = with_style(three_layers(), "gpt-moe").value();
  EXPECT_EQ(parameters(shape, "embedding"),
            (Shapes{{"token.weight", {256, 128}}, {"position.weight", {128, 128}}}));
  EXPECT_EQ(parameters(shape, "layer.0.block"), (Shapes{{"norm1.weight", {128}},
                                                        {"norm1.bias", {128}},
                                                        {"norm2.weight", {128}},
                                                        {"norm2.bias", {128}},
                                                        {"attention.qkv.weight", {384, 128}},
                                                        {"attention.qkv.bias", {384}},
                                                        {"attention.out.weight", {128, 128}},
                                                        {"attention.out.bias", {128}},
                                                        {"ffn.up.weight", {256, 128}},
                                                        {"ffn.up.bias", {256}},
                                                        {"ffn.down.weight", {128, 256}},
                                                        {"ffn.down.bias", {128}}}));
  EXPECT_EQ(parameters(shape, "layer.1.expert.0"), (Shapes{{"up.weight", {128, 128}},
                                                           {"up.bias", {128}},
                                                           {"down.weight", {128, 128}},
                                                           {"down.bias", {128}}}));
  EXPECT_EQ(parameters(shape, "head"),
            (Shapes{{"norm.weight", {128}}, {"norm.bias", {128}}, {"output.weight", {256, 128}}}));
}

TEST(ModelShapeTest, OnlyMatricesAreDecayedAndResidualOnesStartSmaller) {
  const ModelShape shape = with_style(three_layers(), "gpt-moe").value();
  for (const OperatorSpec& spec : model_operators(shape)) {
    for (const ParameterSpec& parameter : spec.parameters) {
      const bool matrix = parameter.shape.size() == 2;
      const bool residual =
          parameter.name.ends_with("down.weight") || parameter.name == "attention.out.weight";
      EXPECT_EQ(parameter.decayed, matrix) << spec.name << "." << parameter.name;
      EXPECT_DOUBLE_EQ(parameter.init_std, !matrix    ? 0
                                           : residual ? 0.02 / std::sqrt(6.0)
                                                      : 0.02)
          << spec.name << "." << parameter.name;
      const bool norm_weight =
          parameter.name.find("norm") != std::string::npos && parameter.name.ends_with(".weight");
      EXPECT_EQ(parameter.init_constant, norm_weight ? 1 : 0) << parameter.name;
    }
  }
}

TEST(ModelShapeTest, ActiveParametersAreAllButTheExpertsNotChosen) {
  ModelShape shape = three_layers();
  shape.experts = 8;
  shape.top_k = 2;
  const ParameterCounts counts = count_parameters(shape);
  const int64_t one_expert = 3 * shape.hidden * shape.expert_hidden;
  EXPECT_EQ(counts.experts, 2 * 8 * one_expert);
  EXPECT_EQ(counts.total - counts.active, 2 * 6 * one_expert);
}

}  // namespace
}  // namespace evermoe
