#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_shape.h"

namespace evermoe {
namespace {

struct Published {
  const char* preset;
  double total_1e9;
  double active_1e9;
  const char* source;
};

class PublishedShapeTest : public testing::TestWithParam<Published> {};

// Published figures are rounded to two or three digits, so half a unit of the last one (at most
// 0.05e9) is the tolerance, but 4 % for the active ones, which publishers round freely.
TEST_P(PublishedShapeTest, CountsAreThePublishedOnes) {
  const ParameterCounts counts = count_parameters(preset(GetParam().preset).value());
  EXPECT_NEAR(counts.total / 1e9, GetParam().total_1e9, 0.05) << GetParam().source;
  EXPECT_NEAR(counts.active / 1e9, GetParam().active_1e9, 0.04 * GetParam().active_1e9)
      << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    Presets, PublishedShapeTest,
    testing::Values(Published{"gpt-moe-7.3b", 7.3, 1.6, "MoEtion, table 2"},
                    Published{"mixtral-8x7b", 46.7, 12.9, "Mixtral of Experts, section 2"},
                    Published{"qwen1.5-moe-a2.7b", 14.3, 2.7, "model card; MoEtion, table 2"},
                    Published{"qwen2-57b-a14b", 57.4, 14.2, "Qwen2 report, table 1 and model card"},
                    Published{"deepseek-moe-16b", 16.4, 2.8, "DeepSeekMoE, section 5"},
                    Published{"moe-llava-2.9b-language", 2.9, 2.0, "MoE-LLaVA, table 1"}),
    [](const auto& info) {
      std::string name = info.param.preset;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

// What to_string of an exact count is worth: a shape that drifts is noticed even inside tolerance.
TEST(PresetTest, MixtralIsExact) {
  EXPECT_EQ(count_parameters(preset("mixtral-8x7b").value()).total, 46702792704);
}

TEST(PresetTest, EveryPresetIsWellFormed) {
  for (const std::string& name : preset_names()) {
    const ModelShape shape = preset(name).value();
    EXPECT_EQ(shape.vocabulary % 64, 0) << name;
    EXPECT_EQ(shape.hidden % 64, 0) << name;
    EXPECT_EQ(shape.dense_hidden % 64, 0) << name;
    EXPECT_EQ(shape.expert_hidden % 64, 0) << name;
    EXPECT_EQ(shape.heads * shape.head_dim % 64, 0) << name;
    EXPECT_EQ(shape.heads % shape.kv_heads, 0) << name;
    EXPECT_LE(shape.top_k, shape.experts) << name;
    EXPECT_TRUE(with_style(shape, shape.style).ok()) << name;
    const int64_t parameters_max = name.ends_with("-tiny")    ? 2'000'000
                                   : name.ends_with("-small") ? 40'000'000
                                                              : 100'000'000'000;
    EXPECT_LT(count_parameters(shape).total, parameters_max) << name;
  }
}

TEST(PresetTest, UnknownNamesListTheAllowedOnes) {
  EXPECT_EQ(preset("gpt5").status().message().substr(0, 46),
            "no preset \"gpt5\", allowed: gpt-moe-tiny, gpt-m");
  EXPECT_EQ(with_style(ModelShape{}, "bert").status().message(),
            "no style \"bert\", allowed: gpt-moe, qwen-moe, deepseek-moe, mixtral");
}

TEST(PresetTest, AStyleChangesPartsAndKeepsSizes) {
  const ModelShape qwen = preset("qwen-moe-tiny").value();
  const ModelShape gpt = with_style(qwen, "gpt-moe").value();
  EXPECT_EQ(gpt.norm, NormKind::kLayerNorm);
  EXPECT_EQ(gpt.position, PositionKind::kLearned);
  EXPECT_EQ(gpt.shared_hidden, 0);
  EXPECT_EQ(gpt.hidden, qwen.hidden);
  EXPECT_EQ(with_style(gpt, "qwen-moe").value(), qwen);
}

}  // namespace
}  // namespace evermoe
