// What is put off is computed once, in order, and never needs more memory than it may.
#include "train/layers/deferred_gradients.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "train/layers/layers.h"

namespace evermoe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class DeferredGradientsTest : public testing::Test {
 protected:
  void put_off(int number, int64_t bytes) {
    deferred_.add(bytes, [this, number] { computed_.push_back(number); });
    EXPECT_LE(deferred_.bytes(), deferred_.bytes_max());
  }

  DeferredGradients deferred_{100};
  std::vector<int> computed_;
};

TEST_F(DeferredGradientsTest, OldestComesFirst) {
  for (const int number : {1, 2, 3}) put_off(number, 10);
  EXPECT_THAT(computed_, IsEmpty());
  EXPECT_TRUE(deferred_.run_one());
  EXPECT_THAT(computed_, ElementsAre(1));
  deferred_.run_all();
  EXPECT_THAT(computed_, ElementsAre(1, 2, 3));
  EXPECT_FALSE(deferred_.run_one());
  EXPECT_EQ(deferred_.bytes(), 0);
}

TEST_F(DeferredGradientsTest, TheOldestMakeRoom) {
  for (const int number : {1, 2, 3}) put_off(number, 30);
  put_off(4, 50);
  EXPECT_THAT(computed_, ElementsAre(1, 2));
  EXPECT_EQ(deferred_.bytes(), 80);
}

TEST_F(DeferredGradientsTest, MoreThanTheLimitIsComputedAtOnceAfterAllBefore) {
  put_off(1, 30);
  put_off(2, 101);
  put_off(3, 30);
  EXPECT_THAT(computed_, ElementsAre(1, 2));
}

TEST_F(DeferredGradientsTest, WhatIsForgottenIsNeverComputed) {
  put_off(1, 30);
  deferred_.clear();
  EXPECT_EQ(deferred_.bytes(), 0);
  put_off(2, 100);
  deferred_.run_all();
  EXPECT_THAT(computed_, ElementsAre(2));
}

TEST_F(DeferredGradientsTest, AnErrorLeavesNothingToComputeTwice) {
  deferred_.add(10, [] { throw std::runtime_error("out of memory"); });
  put_off(2, 10);
  EXPECT_THROW(deferred_.run_all(), std::runtime_error);
  deferred_.run_all();
  EXPECT_THAT(computed_, ElementsAre(2));
}

TEST(DeferredGradientsLimitTest, NothingIsPutOffWithoutMemory) {
  DeferredGradients none(0);
  int computed = 0;
  for (const int64_t bytes : {0, 10}) none.add(bytes, [&] { ++computed; });
  EXPECT_EQ(computed, 2);
}

TEST(DeferredGradientsLimitTest, WorkRecordsNoGraph) {
  DeferredGradients deferred(100);
  bool is_recorded = true;
  deferred.add(1, [&] { is_recorded = at::GradMode::is_enabled(); });
  deferred.run_all();
  EXPECT_FALSE(is_recorded);
}

TEST(OperatorDeferralTest, KnowsWhatWaitsOfItsOperator) {
  DeferredGradients all(100);
  OperatorDeferral first(all), second(all);
  const auto nothing = [] {};
  first.add(40, nothing);
  second.add(40, nothing);
  first.add(20, nothing);
  EXPECT_FALSE(first.is_empty() || second.is_empty());
  all.run_one();
  EXPECT_FALSE(first.is_empty()) << "its newer one still waits";
  all.run_one();
  EXPECT_TRUE(second.is_empty());
  second.add(90, nothing);  // the oldest one makes room
  EXPECT_TRUE(first.is_empty());
  EXPECT_FALSE(second.is_empty());
  all.clear();
  EXPECT_TRUE(second.is_empty());
}

class DeferralsTest : public testing::Test {
 protected:
  std::function<void()> work(int number) {
    return [this, number] { computed_.push_back(number); };
  }
  void put_off_together(int number) {
    const std::vector<OperatorDeferral*> both = {&first_, &second_};
    OperatorDeferral::add_together(10, work(number), both);
  }

  DeferredGradients all_{100};
  OperatorDeferral first_{all_}, second_{all_}, third_{all_};
  std::vector<int> computed_;
};

TEST_F(DeferralsTest, ThoseOfOneOperatorAreComputedAlone) {
  first_.add(10, work(1));
  second_.add(20, work(2));
  first_.add(30, work(3));
  first_.run();
  EXPECT_THAT(computed_, ElementsAre(1, 3));
  EXPECT_TRUE(first_.is_empty());
  EXPECT_FALSE(second_.is_empty());
  EXPECT_EQ(all_.bytes(), 20);
  all_.run_all();
  EXPECT_THAT(computed_, ElementsAre(1, 3, 2));
}

TEST_F(DeferralsTest, WhatIsOfSeveralComesBehindWhatWasPutOffOfEach) {
  third_.add(10, work(0));
  second_.add(10, work(1));
  put_off_together(2);
  second_.add(10, work(3));
  first_.run();
  EXPECT_THAT(computed_, ElementsAre(1, 2));
  EXPECT_TRUE(first_.is_empty());
  second_.run();
  EXPECT_THAT(computed_, ElementsAre(1, 2, 3));
  EXPECT_FALSE(third_.is_empty());
}

TEST_F(DeferralsTest, AfterAnErrorNothingWaitsOfTheOperator) {
  first_.add(10, [] { throw std::runtime_error("out of memory"); });
  put_off_together(1);
  second_.add(10, work(2));
  EXPECT_THROW(first_.run(), std::runtime_error);
  EXPECT_TRUE(first_.is_empty());
  EXPECT_EQ(all_.bytes(), 10);
  all_.clear();
  EXPECT_TRUE(second_.is_empty());
  EXPECT_THAT(computed_, IsEmpty());
}

// Gradients of two matrices from several micro-batches; `waits` says how many are computed after
// each; in the end those of the second come first.
std::vector<at::Tensor> accumulated(at::ScalarType type, DeferredGradients* deferred,
                                    const std::vector<int>& waits) {
  const auto generator = at::detail::createCPUGenerator(/*seed=*/5);
  std::vector<std::unique_ptr<OperatorDeferral>> of_operators;
  std::vector<Parameter> weights;
  for (int i = 0; i < 2; ++i) {
    if (deferred != nullptr) of_operators.push_back(std::make_unique<OperatorDeferral>(*deferred));
    weights.push_back({at::zeros({8, 16}, type), at::zeros({8, 16}), false,
                       deferred != nullptr ? of_operators.back().get() : nullptr});
  }
  for (const int wait : waits) {
    for (const Parameter& weight : weights) {
      const auto draw = [&](int64_t width) {
        return at::randn({32, width}, generator, at::kFloat).to(type);
      };
      const at::Tensor gradient = draw(8), x = draw(16);
      accumulate_weight_gradient(weight, gradient, x);
    }
    for (int i = 0; i < wait; ++i) deferred->run_one();
  }
  while (!of_operators.empty()) {
    of_operators.back()->run();
    of_operators.pop_back();
  }
  return {weights[0].gradient, weights[1].gradient};
}

TEST(DeferredGradientsBitsTest, SumsHaveTheSameBitsWheneverTheyAreComputed) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const std::vector<at::Tensor> at_once = accumulated(type, nullptr, {0, 0, 0, 0, 0});
    for (const std::vector<int>& waits :
         {std::vector<int>{0, 0, 0, 0, 0}, {1, 0, 3, 0, 1}, {0, 3, 2, 2, 0}}) {
      DeferredGradients deferred(1 << 20);
      const std::vector<at::Tensor> later = accumulated(type, &deferred, waits);
      for (size_t i = 0; i < later.size(); ++i)
        EXPECT_TRUE(at::equal(later[i], at_once[i])) << type;
    }
  }
}

}  // namespace
}  // namespace evermoe
