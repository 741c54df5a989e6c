// Numbers that are not finite are examined: what is decided, what is written down, and where they
// are made.

#include "train/step/examination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "train/layers/origin_watch.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

const ModelShape& tiny_shape() {
  static const ModelShape shape = tiny_config("qwen-moe", {}).model;
  return shape;
}

Examination an_examination() {
  return {.step = Step(12),
          .rank = Rank(2),
          .role = "1.0",
          .first = {NonFinitePhase::kBackward, 3, 4},
          .node = 1,
          .samples = {{3, 70, 1120, 1137}, {3, 9, 144, 161}},
          .checkpoint = Step(10)};
}

TEST(Examination, TheFirstIsAnAttemptAndTheSecondTheJudgement) {
  EXPECT_EQ(decide_origin({}), OriginDecision::kAttempt);
  EXPECT_EQ(decide_origin({.own = an_examination()}), OriginDecision::kReproduced);
  Examination judged = an_examination();
  judged.second = {2, /*is_reproduced=*/true};
  EXPECT_EQ(decide_origin({.own = judged}), OriginDecision::kPass) << "that is known";
  judged.second = {2, /*is_reproduced=*/false};
  EXPECT_EQ(decide_origin({.own = judged}), OriginDecision::kAttempt) << "another machine's fault";
}

TEST(Examination, WhatAnotherRoleHasMetIsNotExaminedTwice) {
  EXPECT_EQ(decide_origin({.has_others = true}), OriginDecision::kPass);
}

TEST(Examination, OrdinarySkipsAreNoEvidence) {
  EXPECT_EQ(decide_origin({.lowers_scale = true}), OriginDecision::kPass);
  EXPECT_EQ(decide_origin({.own = an_examination(), .lowers_scale = true}), OriginDecision::kPass);
  EXPECT_EQ(decide_origin({.skipped_in_row = 1}), OriginDecision::kPass) << "a run that diverges";
}

TEST(Examination, IsReadAsItWasWritten) {
  Examination examination = an_examination();
  const auto read = [](const Examination& one) {
    return parse_examination(to_json(one, tiny_shape()), "1.0.json", tiny_shape()).value();
  };
  EXPECT_EQ(read(examination), examination);
  examination.second = {2, true};
  examination.checkpoint = Step(-1);
  examination.first = {NonFinitePhase::kWeightGradient, -1, 0};
  examination.samples.clear();
  EXPECT_EQ(read(examination), examination);
}

TEST(Examination, DamagedFilesAreRefusedWithOneLine) {
  const std::string text = to_json(an_examination(), tiny_shape());
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i)
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    if (round % 5 == 0) damaged.resize(random() % damaged.size());
    const auto read = parse_examination(damaged, "1.0.json", tiny_shape());
    if (read.ok()) {
      EXPECT_FALSE(describe(*read, tiny_shape()).empty());
      continue;
    }
    ++refused;
    EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("1.0.json"));
  }
  EXPECT_GT(refused, 1000);
}

TEST(Examination, IsToldInOneLine) {
  Examination examination = an_examination();
  const std::string met = describe(examination, tiny_shape());
  EXPECT_THAT(met, HasSubstr("made by role 1.0 on node 1 of finite ones in "));
  EXPECT_THAT(met, HasSubstr(", backward, micro-batch 3 of step 12"));
  examination.second = {2, false};
  EXPECT_THAT(describe(examination, tiny_shape()),
              HasSubstr("computed again on node 2 it is finite: the machine was at fault"));
  examination.second = {2, true};
  EXPECT_THAT(describe(examination, tiny_shape()), HasSubstr("the samples, or the model, are"));
}

TEST(Examination, QuarantinedWindowsAreASetWithALimit) {
  EXPECT_THAT(quarantined_with({3, 8}, {8, 1}, 100), Optional(ElementsAre(1, 3, 8)));
  EXPECT_EQ(quarantined_with({3, 8}, {1}, 5), std::nullopt) << "more than half of all";
  std::vector<int64_t> many(static_cast<size_t>(kQuarantinedWindowsMax));
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i);
  EXPECT_TRUE(quarantined_with({}, many, 1'000'000));
  EXPECT_EQ(quarantined_with({1'000}, {999'999}, 1'000'000)->size(), 2u);
  EXPECT_EQ(quarantined_with({999'999}, many, 1'000'000), std::nullopt);
}

// ---- where they are made

class Origins : public testing::Test {
 protected:
  OriginWatch watch_{tiny_shape(), [this](const NonFinite& place) { met_.push_back(place); }};
  std::vector<NonFinite> met_;
  const at::Tensor good_ = at::ones({4, 3});
  const at::Tensor bad_ = at::full({4, 3}, std::numeric_limits<double>::infinity());
};

TEST_F(Origins, WhatIsMadeOfFiniteNumbersIsOneAndWhatIsPassedOnIsNot) {
  watch_.make(good_, watch_.receive(good_), NonFinitePhase::kForward, 0, "head");
  watch_.make(bad_, watch_.receive(bad_), NonFinitePhase::kForward, 1, "head");
  watch_.make({}, watch_.receive(good_), NonFinitePhase::kBackward, 1, "head");
  EXPECT_TRUE(met_.empty());
  watch_.make(bad_, watch_.receive({}), NonFinitePhase::kForward, 2, "head");
  const auto head = static_cast<int32_t>(model_operators(tiny_shape()).size() - 1);
  EXPECT_THAT(met_, ElementsAre(NonFinite{NonFinitePhase::kForward, 2, head}));
}

TEST_F(Origins, AGradientIsToBlameOnlyIfNothingBadHasCome) {
  watch_.begin_step();
  watch_.receive(bad_);
  watch_.add_gradient(bad_, "embedding");
  EXPECT_TRUE(met_.empty());
  watch_.begin_step();
  watch_.add_gradient(bad_, "embedding");
  EXPECT_THAT(met_, ElementsAre(NonFinite{NonFinitePhase::kWeightGradient, -1, 0}));
}

TEST_F(Origins, OfExpertsThoseWhoseInputsWereFiniteThereAndBack) {
  at::Tensor inputs = at::ones({4, 3});
  inputs.narrow(0, 0, 2).fill_(std::numeric_limits<double>::quiet_NaN());
  inputs.requires_grad_(true);
  const std::vector<ExpertRows> rows = {{.begin = 0, .rows = 2, .padded = 2},
                                        {.begin = 2, .rows = 2, .padded = 2}};
  // Both experts make bad numbers, one of them of good ones; the way back all that comes is good.
  const at::Tensor outputs = inputs * std::numeric_limits<double>::infinity();
  watch_.watch_experts(inputs, outputs, rows, {"layer.0.expert.0", "layer.0.expert.1"}, -1);
  ASSERT_EQ(met_.size(), 1u);
  const auto operators = model_operators(tiny_shape());
  EXPECT_EQ(operators[static_cast<size_t>(met_[0].operator_index)].name, "layer.0.expert.1");
  met_.clear();
  outputs.backward(at::ones({4, 3}));
  ASSERT_EQ(met_.size(), 2u);
  EXPECT_EQ(met_[0].phase, NonFinitePhase::kBackward);
}

}  // namespace
}  // namespace evermoe
