// Our kernels compute what they say. On the CPU, and on a GPU where EVERMOE_TEST_DEVICE is cuda.

#include "tensor/kernels/fused.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string_view>

#include "base/check.h"
#include "tensor/compute_device.h"
#include "tensor/kernels/kernels_on_cpu_testing.h"

namespace evermoe {
namespace {

void run_on_cpu(const std::string& kernel, int64_t blocks, int64_t threads,
                std::span<void*> arguments) {
  using on_cpu::with_arguments;
  static const std::map<std::string, std::function<void(std::span<void*>)>> kernels = {
      {"mix", with_arguments(on_cpu::mix)},
      {"mix_backward", with_arguments(on_cpu::mix_backward)},
      {"swiglu", with_arguments(on_cpu::swiglu)},
      {"swiglu_backward", with_arguments(on_cpu::swiglu_backward)},
      {"rms_norm", with_arguments(on_cpu::rms_norm)},
      {"rms_norm_backward", with_arguments(on_cpu::rms_norm_backward)},
      {"rms_norm_weight_backward", with_arguments(on_cpu::rms_norm_weight_backward)},
      {"rotate", with_arguments(on_cpu::rotate)}};
  on_cpu::run_blocks(blocks, threads, [&] { kernels.at(kernel)(arguments); });
}

at::Device device() {
  static const at::Device one = [] {
    const char* const name = std::getenv("EVERMOE_TEST_DEVICE");
    const bool is_gpu = name != nullptr && std::string_view(name) == "cuda";
    const at::Device found = is_gpu ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
    use_device(found);
    return found;
  }();
  return one;
}

at::Tensor exact(const at::Tensor& x) { return x.detach().to(at::kCPU, at::kDouble); }

class FusedTest : public testing::TestWithParam<int64_t> {  // width
 protected:
  FusedTest() { fused::run_in_host_memory_by(run_on_cpu); }
  at::Tensor draw(at::IntArrayRef sizes, at::ScalarType type = at::kBFloat16) {
    return at::randn(sizes, generator_, at::kFloat).to(device(), type);
  }
  at::Generator generator_ = at::detail::createCPUGenerator(/*seed=*/7);
  const at::NoGradGuard no_grad_;
};

// Rounded once: within half a unit of the last place, and what FP32 adds to that.
void expect_rounded_once(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.scalar_type(), at::kBFloat16);
  ASSERT_EQ(found.sizes(), expected.sizes());
  const at::Tensor error = (exact(found) - expected).abs() - expected.abs() * 0x1.01p-8;
  EXPECT_LT(error.max().item<double>(), 1e-5 * expected.abs().max().item<double>());
}

void expect_near(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.scalar_type(), at::kFloat);
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LT((exact(found) - expected).abs().max().item<double>(),
            2e-6 * expected.abs().max().item<double>());
}

struct Choices {
  at::Tensor row_of;         // [T, top_k]
  at::Tensor choice_of_row;  // [T * top_k]
};

Choices shuffled(int64_t tokens, int64_t top_k, const at::Generator& generator) {
  const at::Tensor order = at::randperm(tokens * top_k, generator, at::kLong);
  return {at::argsort(order).view({tokens, top_k}).to(device()), order.to(device())};
}

TEST_P(FusedTest, MixesEveryTokensRowsByTheirWeights) {
  const Choices choices = shuffled(11, 3, generator_);
  const at::Tensor rows = draw({33, GetParam()}), weights = draw({11, 3}, at::kFloat);
  const at::Tensor of_choices =
      exact(rows).index_select(0, choices.row_of.flatten().cpu()).view({11, 3, GetParam()});
  expect_rounded_once(fused::mix(rows, choices.row_of, weights),
                      (of_choices * exact(weights).unsqueeze(-1)).sum(1));
  expect_rounded_once(fused::mix(rows, choices.row_of, {}), of_choices.sum(1));
}

TEST_P(FusedTest, GradientsOfMixing) {
  const Choices choices = shuffled(11, 3, generator_);
  const at::Tensor rows = draw({33, GetParam()}), weights = draw({11, 3}, at::kFloat),
                   gradient = draw({11, GetParam()});
  const auto [of_rows, of_weights] =
      fused::mix_backward(gradient, rows, choices.choice_of_row, weights);
  const at::Tensor choice = choices.choice_of_row.cpu();
  const at::Tensor of_token = exact(gradient).index_select(0, at::div(choice, 3, "floor"));
  expect_rounded_once(of_rows,
                      of_token * exact(weights).flatten().index_select(0, choice).unsqueeze(-1));
  expect_near(of_weights, (of_token * exact(rows))
                              .sum(1)
                              .index_select(0, choices.row_of.flatten().cpu())
                              .view({11, 3}));
}

TEST_P(FusedTest, SwiGluAndItsGradient) {
  const at::Tensor up = draw({9, 2 * GetParam()}), gradient = draw({9, GetParam()});
  const auto halves = exact(up).chunk(2, -1);
  const at::Tensor open = at::sigmoid(halves[0]), d = exact(gradient);
  expect_rounded_once(fused::swiglu(up), halves[0] * open * halves[1]);
  expect_rounded_once(
      fused::swiglu_backward(gradient, up),
      at::cat({d * halves[1] * open * (1 + halves[0] * (1 - open)), d * halves[0] * open}, -1));
}

TEST_P(FusedTest, RmsNormAndItsGradients) {
  // More rows than parts of which the weight's gradient is added; of wide ones a thread takes long.
  const int64_t rows = device().is_cpu() && GetParam() > 64 ? 40 : 700;
  const at::Tensor x = draw({rows, GetParam()}), weight = draw({GetParam()}),
                   gradient = draw({rows, GetParam()});
  const at::Tensor wide = exact(x), factor = exact(weight), d = exact(gradient);
  const at::Tensor scale = at::rsqrt(wide.square().mean(-1, true) + 1e-5);
  const auto [result, kept] = fused::rms_norm(x, weight, 1e-5);
  expect_rounded_once(result, wide * scale * factor);
  expect_near(kept, scale.squeeze(-1));
  const at::Tensor normal = wide * scale;
  const auto [of_x, of_weight] = fused::rms_norm_backward(gradient, x, kept, weight, true);
  expect_rounded_once(of_x, (d * factor - normal * (d * factor * normal).mean(-1, true)) * scale);
  expect_near(of_weight, (d * normal).sum(0));
  EXPECT_FALSE(fused::rms_norm_backward(gradient, x, kept, weight, false).second.defined());
}

TEST_P(FusedTest, RotatesViewsForthAndBack) {
  const int64_t head_dim = GetParam();
  const at::Tensor all = draw({2, 5, 4, head_dim}), x = all.narrow(2, 1, 3);
  const at::Tensor angle = draw({5, 1, head_dim / 2}, at::kFloat);
  const at::Tensor cosine = at::cos(angle), sine = at::sin(angle);
  const auto halves = exact(x).chunk(2, -1);
  const at::Tensor c = exact(cosine), s = exact(sine);
  at::Tensor forth = at::empty(x.sizes(), x.options());
  fused::rotate(x, cosine, sine, fused::Rotation::kForth, forth);
  expect_rounded_once(forth,
                      at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1));
  at::Tensor back = at::zeros_like(all);
  fused::rotate(x.transpose(1, 2).contiguous().transpose(1, 2), cosine, sine,
                fused::Rotation::kBack, back.narrow(2, 1, 3));
  expect_rounded_once(back.narrow(2, 1, 3),
                      at::cat({halves[0] * c + halves[1] * s, halves[1] * c - halves[0] * s}, -1));
  EXPECT_EQ(back.narrow(2, 0, 1).count_nonzero().item<int64_t>(), 0);
}

TEST_P(FusedTest, EveryRunHasTheSameBits) {
  const int64_t rows = device().is_cpu() ? 40 : 40000;
  const Choices choices = shuffled(rows / 2, 2, generator_);
  const at::Tensor x = draw({rows, GetParam()}), weights = draw({rows / 2, 2}, at::kFloat),
                   gradient = draw({rows / 2, GetParam()}), weight = draw({GetParam()});
  const auto all = [&] {
    const auto [of_rows, of_weights] =
        fused::mix_backward(gradient, x, choices.choice_of_row, weights);
    const auto [normal, scale] = fused::rms_norm(x, weight, 1e-5);
    const auto [of_x, of_weight] = fused::rms_norm_backward(normal, x, scale, weight, true);
    return std::vector<at::Tensor>{
        fused::mix(x, choices.row_of, weights), of_rows, of_weights, normal, of_x, of_weight};
  };
  const std::vector<at::Tensor> first = all();
  for (int time = 0; time < (device().is_cpu() ? 2 : 20); ++time) {
    const std::vector<at::Tensor> again = all();
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(again[i], first[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, FusedTest, testing::Values(16, 64, 272, 2064),
                         testing::PrintToStringParamName());

// Numbers that BF16 has no place for, and those between two.
TEST(FusedKernels, RoundToTheNearestAsPyTorchDoes) {
  for (uint32_t high = 0; high < 0x10000; high += 7) {
    for (const uint32_t low : {0u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = on_cpu::as_float(high << 16 | low);
      const uint16_t expected = c10::BFloat16(value).x;
      const auto found = static_cast<uint16_t>(on_cpu::as_bf16(value));
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(on_cpu::as_float(uint32_t{found} << 16)));
      } else {
        EXPECT_EQ(found, expected) << value;
      }
    }
  }
}

}  // namespace
}  // namespace evermoe
