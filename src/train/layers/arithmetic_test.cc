// What the layers compute, against the same in FP64 or against plain autograd.

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "model/activation_bytes.h"
#include "tensor/wide_product.h"
#include "train/layers/attention.h"
#include "train/layers/head_loss.h"
#include "train/layers/layers.h"

namespace evermoe {
namespace {

class ArithmeticTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  at::Tensor draw(at::IntArrayRef sizes, at::ScalarType type) {
    return at::randn(sizes, generator_, at::kFloat).to(type);
  }
  at::Generator generator_ = at::detail::createCPUGenerator(/*seed=*/7);
};

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.to(at::kDouble) - expected).abs().max() / expected.abs().max()).item<double>();
}

// ---- gradients of weights

TEST_F(ArithmeticTest, WeightGradientsAreNotRoundedToTheNarrowType) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const int64_t rows : {1, 16, 48, 512}) {
      const at::Tensor gradient = draw({rows, 96}, type), x = draw({rows, 64}, type);
      const at::Tensor before = draw({96, 64}, at::kFloat);
      at::Tensor sum = before.clone();
      for (int times = 0; times < 2; ++times) add_weight_gradient(sum, gradient, x);
      const at::Tensor expected =
          before.to(at::kDouble) + at::mm(gradient.to(at::kDouble).t(), x.to(at::kDouble)) * 2;
      EXPECT_LT(relative_error(sum, expected), 1e-6) << type << ", " << rows << " rows";
    }
  }
}

// Whichever kernels this CPU has for them.
TEST_F(ArithmeticTest, ProductsAreRoundedOnce) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const double unit = type == at::kHalf ? 0x1p-11 : 0x1p-8;
    const at::Tensor x = draw({48, 320}, type), weight = draw({96, 320}, type),
                     bias = draw({96}, type), b = draw({320, 96}, type);
    const auto exact = [](const at::Tensor& t) { return t.to(at::kDouble); };
    const auto error_in_units = [&](const at::Tensor& result, const at::Tensor& expected) {
      EXPECT_EQ(result.scalar_type(), type);
      return ((exact(result) - expected).abs() / (expected.abs() + 0.1)).max().item<double>() /
             unit;
    };
    EXPECT_LT(error_in_units(linear_product(x, weight, bias),
                             at::linear(exact(x), exact(weight), exact(bias))),
              1.01);
    EXPECT_LT(error_in_units(linear_product(x, weight), at::linear(exact(x), exact(weight))), 1.01);
    EXPECT_LT(error_in_units(matrix_product(x, b), at::mm(exact(x), exact(b))), 1.01);
    at::Tensor into = at::empty({48, 96}, type);
    matrix_product_into(into, x, b);
    EXPECT_TRUE(at::equal(into, matrix_product(x, b)));
  }
}

TEST_F(ArithmeticTest, WeightGradientsMayBeLargerThanTheNarrowType) {
  const at::Tensor gradient = at::full({64, 32}, 60000, at::kHalf),
                   x = at::full({64, 16}, 1000, at::kHalf);
  at::Tensor sum = at::zeros({32, 16});
  add_weight_gradient(sum, gradient, x);
  EXPECT_TRUE(at::equal(sum, at::full({32, 16}, 60000.0 * 1000 * 64)));
}

TEST_F(ArithmeticTest, WeightGradientsTakeMatricesAsTheyLie) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor wide = draw({40, 96}, type), tall = draw({64, 40}, type);
    at::Tensor of_views = at::zeros({32, 64}), of_copies = at::zeros({32, 64});
    add_weight_gradient(of_views, wide.narrow(1, 32, 32), tall.t());
    add_weight_gradient(of_copies, wide.narrow(1, 32, 32).contiguous(), tall.t().contiguous());
    EXPECT_TRUE(at::equal(of_views, of_copies)) << type;
    add_weight_gradient(of_views, wide.narrow(0, 0, 0).narrow(1, 0, 32), tall.t().narrow(0, 0, 0));
    EXPECT_TRUE(at::equal(of_views, of_copies)) << type;
  }
}

TEST_F(ArithmeticTest, GradientsOfNormsAreNotRoundedToTheNarrowType) {
  const at::Tensor value = draw({128, 64}, at::kBFloat16),
                   output_gradient = draw({128, 64}, at::kBFloat16);
  const Parameter weight{at::ones({64}, at::kBFloat16), at::zeros({64})};
  const Parameter bias{at::zeros({64}, at::kBFloat16), at::zeros({64})};
  layer_norm(value.clone().requires_grad_(true), weight, bias, 1e-5).backward(output_gradient);
  const at::Tensor exact = value.to(at::kDouble);
  const at::Tensor centred = exact - exact.mean(-1, true);
  const at::Tensor normal = centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
  EXPECT_LT(relative_error(weight.gradient, (normal * output_gradient.to(at::kDouble)).sum(0)),
            1e-5);
  EXPECT_LT(relative_error(bias.gradient, output_gradient.to(at::kDouble).sum(0)), 1e-6);
}

// ---- attention

TEST_F(ArithmeticTest, NarrowAttentionIsNearTheExactOne) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const double unit = type == at::kHalf ? 0x1p-11 : 0x1p-8;
    const at::Tensor output_gradient = draw({2, 33, 3, 16}, type);
    std::vector<at::Tensor> narrow, exact;
    for (int i = 0; i < 3; ++i) {
      const at::Tensor one = draw({2, 33, 3, 16}, type);
      narrow.push_back(one.clone().requires_grad_(true));
      exact.push_back(one.to(at::kDouble).requires_grad_(true));
    }
    const at::Tensor output = causal_attention(narrow[0], narrow[1], narrow[2]);
    const at::Tensor expected = causal_attention(exact[0], exact[1], exact[2]);
    EXPECT_LT(relative_error(output, expected), unit) << type;
    output.backward(output_gradient);
    expected.backward(output_gradient.to(at::kDouble));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(narrow[i].grad().scalar_type(), type);
      EXPECT_LT(relative_error(narrow[i].grad(), exact[i].grad()), 8 * unit) << type << ", " << i;
    }
  }
}

// ---- rotary positions

TEST_F(ArithmeticTest, RotationsAreRoundedOnce) {
  constexpr int64_t kLength = 64, kHeadDim = 32;
  const auto [cosine, sine] = rotary_tables(kLength, kHeadDim, 10000, at::kBFloat16, at::kCPU);
  const auto [exact_cosine, exact_sine] =
      rotary_tables(kLength, kHeadDim, 10000, at::kDouble, at::kCPU);
  const at::Tensor x = draw({2, kLength, 3, kHeadDim}, at::kBFloat16);
  const at::Tensor found = rotary(x, cosine, sine).to(at::kDouble);
  const at::Tensor exact = rotary(x.to(at::kDouble), exact_cosine, exact_sine);
  // Half a unit in the last of 8 binary places (2^-8), and what FP32 angles cost where two terms
  // nearly cancel.
  const at::Tensor allowed = exact.abs() * 0.00391 + 5e-4;
  EXPECT_TRUE(((found - exact).abs() <= allowed).all().item<bool>());
}

// ---- the loss

struct LossAndGradients {
  at::Tensor loss, input, weight;
};

LossAndGradients plain_loss(const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& targets, double scale) {
  at::Tensor leaf = x.detach().clone().requires_grad_(true),
             matrix = weight.detach().clone().requires_grad_(true);
  const at::Tensor loss = at::cross_entropy_loss(at::linear(leaf, matrix).to(at::kFloat), targets);
  loss.backward(at::full_like(loss, scale));
  return {loss.detach(), leaf.grad(), matrix.grad()};
}

LossAndGradients chunked_loss(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& targets, double scale) {
  const Parameter parameter{weight, at::zeros(weight.sizes(), at::kFloat)};
  at::Tensor leaf = x.detach().clone().requires_grad_(true);
  const at::Tensor loss = head_loss(leaf, parameter, targets, at::kFloat, scale);
  loss.backward(at::full_like(loss, scale));
  return {loss.detach(), leaf.grad(), parameter.gradient};
}

TEST_F(ArithmeticTest, TheLossInOneChunkHasTheBitsOfThePlainLoss) {
  const at::Tensor x = draw({200, 64}, at::kFloat), weight = draw({320, 64}, at::kFloat);
  const at::Tensor targets = at::randint(320, {200}, generator_, at::kLong);
  const LossAndGradients plain = plain_loss(x, weight, targets, 0.25),
                         chunked = chunked_loss(x, weight, targets, 0.25);
  EXPECT_TRUE(at::equal(chunked.loss, plain.loss));
  EXPECT_TRUE(at::equal(chunked.input, plain.input));
  EXPECT_TRUE(at::equal(chunked.weight, plain.weight));
}

TEST_F(ArithmeticTest, ManyChunksChangeTheSumOfTheWeightsGradientAlone) {
  constexpr int64_t kVocabulary = 40000, kTokens = 700;
  ASSERT_LT(2 * logits_rows(kVocabulary, 4), kTokens) << "fewer than three chunks";
  const at::Tensor x = draw({kTokens, 64}, at::kFloat),
                   weight = draw({kVocabulary, 64}, at::kFloat) * 0.1;
  const at::Tensor targets = at::randint(kVocabulary, {kTokens}, generator_, at::kLong);
  const LossAndGradients plain = plain_loss(x, weight, targets, 3),
                         chunked = chunked_loss(x, weight, targets, 3);
  EXPECT_TRUE(at::equal(chunked.loss, plain.loss));
  EXPECT_TRUE(at::equal(chunked.input, plain.input));
  EXPECT_LT(relative_error(chunked.weight, plain.weight.to(at::kDouble)), 1e-6);
  EXPECT_TRUE(at::equal(chunked.weight, chunked_loss(x, weight, targets, 3).weight));
}

TEST_F(ArithmeticTest, HitsAreTargetsThatAreTheLikeliest) {
  constexpr int64_t kVocabulary = 40000, kTokens = 700;
  const at::Tensor x = draw({kTokens, 64}, at::kFloat),
                   weight = draw({kVocabulary, 64}, at::kFloat) * 0.1;
  at::Tensor targets = at::linear(x, weight).argmax(-1);
  // One of every chunk, and more.
  for (const int64_t miss : {0, 1, 255, 256, 400, 699}) targets[miss] = (targets[miss] + 1) % 9;
  const at::NoGradGuard no_grad;
  int64_t hits = 5;
  head_loss(x, {weight}, targets, at::kFloat, 1, &hits);
  EXPECT_EQ(hits, 5 + kTokens - 6);
}

TEST_F(ArithmeticTest, AnotherScaleInTheBackwardPassIsAMistake) {
  // A fork would not have the threads that PyTorch has when it is built for GPUs.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Parameter weight{draw({64, 64}, at::kFloat), at::zeros({64, 64})};
  const at::Tensor x = draw({8, 64}, at::kFloat).requires_grad_(true);
  const at::Tensor loss = head_loss(x, weight, at::zeros({8}, at::kLong), at::kFloat, 2);
  EXPECT_DEATH(loss.backward(at::full_like(loss, 4)), "another scale");
}

}  // namespace
}  // namespace evermoe
