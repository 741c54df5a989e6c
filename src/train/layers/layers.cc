#include "train/layers/layers.h"

#include "tensor/fp8_factor.h"
#include "tensor/gradient_node.h"
#include "tensor/kernels/fused.h"
#include "tensor/wide_product.h"

namespace evermoe {
namespace {

using Gradients = std::vector<at::Tensor>;

at::ScalarType at_least_fp32(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

at::Tensor forward_factor(const at::Tensor& x, const Parameter& weight) {
  return weight.has_fp8_products ? rounded_to_fp8(x, at::kFloat8_e4m3fn) : x;
}

at::Tensor gradient_factor(const at::Tensor& gradient, const Parameter& weight) {
  return weight.has_fp8_products ? rounded_to_fp8(gradient, at::kFloat8_e5m2) : gradient;
}

void accumulate_weight_gradient(const Parameter& weight, const at::Tensor& gradient,
                                const at::Tensor& x) {
  if (weight.is_frozen) return;
  if (weight.deferred == nullptr) return add_weight_gradient(weight.gradient, gradient, x);
  const auto bytes = static_cast<int64_t>(gradient.nbytes() + x.nbytes());
  weight.deferred->add(bytes, [accumulator = weight.gradient, gradient, x] {
    add_weight_gradient(accumulator, gradient, x);
  });
}

void defer_together(const std::vector<const Parameter*>& weights, int64_t bytes,
                    const std::function<void()>& add) {
  if (weights.front()->deferred == nullptr) return add();
  std::vector<OperatorDeferral*> operators;
  for (const Parameter* const weight : weights) operators.push_back(weight->deferred);
  OperatorDeferral::add_together(bytes, add, operators);
}

void accumulate_bias_gradient(const Parameter& bias, const at::Tensor& gradient) {
  if (bias.is_frozen) return;
  at::Tensor accumulator = bias.gradient;
  accumulator.add_(gradient.sum(0, /*keepdim=*/false, accumulator.scalar_type()));
}

std::vector<at::Tensor> fan_out(const at::Tensor& x, int readers) {
  std::vector<at::Tensor> outputs;
  for (int i = 0; i < readers; ++i) outputs.push_back(x.detach());
  return with_gradients(std::move(outputs), {x}, [](const std::vector<at::Tensor>& gradients) {
    at::Tensor sum;
    for (const at::Tensor& gradient : gradients) {
      if (gradient.defined()) sum = sum.defined() ? sum + gradient : gradient;
    }
    return Gradients{sum};
  });
}

at::Tensor linear(const at::Tensor& x, const Parameter& weight, const Parameter* bias) {
  const at::Tensor input = forward_factor(x.detach(), weight);
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = linear_product(input, weight.value, bias != nullptr ? bias->value : at::Tensor());
  }
  return with_gradient(output, {x}, [input, &weight, bias](const at::Tensor& gradient) {
    const at::Tensor factor = gradient_factor(gradient, weight);
    accumulate_weight_gradient(weight, factor, input);
    if (bias != nullptr) accumulate_bias_gradient(*bias, gradient);
    return Gradients{matrix_product(factor, weight.value)};
  });
}

at::Tensor linear_in_fp32(const at::Tensor& x, const Parameter& weight) {
  const at::ScalarType type = at_least_fp32(x.scalar_type());
  const at::Tensor input = x.detach().to(type);
  const at::Tensor matrix = weight.value.to(type);
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = at::linear(input, matrix);
  }
  return with_gradient(output, {x},
                       [input, matrix, &weight, to = x.scalar_type()](const at::Tensor& gradient) {
                         accumulate_weight_gradient(weight, gradient, input);
                         return Gradients{at::mm(gradient, matrix).to(to)};
                       });
}

namespace {

at::Tensor fused_rms_norm(const at::Tensor& x, const Parameter& weight, double epsilon) {
  const at::Tensor input = x.detach();
  const auto [output, scale] = fused::rms_norm(input, weight.value, epsilon);
  return with_gradient(output, {x}, [input, scale = scale, &weight](const at::Tensor& gradient) {
    const auto [of_input, of_weight] = fused::rms_norm_backward(gradient.contiguous(), input, scale,
                                                                weight.value, !weight.is_frozen);
    if (!weight.is_frozen) {
      at::Tensor accumulator = weight.gradient;
      accumulator.add_(of_weight);
    }
    return Gradients{of_input};
  });
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double epsilon) {
  if (fused::has_kernels(x)) return fused_rms_norm(x, weight, epsilon);
  const at::ScalarType type = at_least_fp32(x.scalar_type());
  at::Tensor normal, scale, output;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor wide = x.detach().to(type);
    scale = at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + epsilon);
    normal = wide * scale;
    output = normal.to(x.scalar_type()) * weight.value;
  }
  return with_gradient(
      output, {x}, [normal, scale, &weight, to = x.scalar_type()](const at::Tensor& gradient) {
        const at::Tensor wide = gradient.to(normal.scalar_type());
        if (!weight.is_frozen)
          accumulate_bias_gradient(weight, wide * normal);  // sums over the rows, like a bias
        const at::Tensor d_normal = wide * weight.value;
        const at::Tensor along = (d_normal * normal).mean(-1, /*keepdim=*/true);
        return Gradients{((d_normal - normal * along) * scale).to(to)};
      });
}

at::Tensor layer_norm(const at::Tensor& x, const Parameter& weight, const Parameter& bias,
                      double epsilon) {
  const at::Tensor input = x.detach();
  const std::vector<int64_t> width = {x.size(-1)};
  // Weights in FP32 make the kernel keep its statistics in FP32, too.
  const at::ScalarType type = at_least_fp32(x.scalar_type());
  const at::Tensor factor = weight.value.to(type), shift = bias.value.to(type);
  at::Tensor output, mean, scale;
  {
    const at::NoGradGuard no_grad;
    std::tie(output, mean, scale) = at::native_layer_norm(input, width, factor, shift, epsilon);
  }
  return with_gradient(output, {x}, [=, &weight, &bias](const at::Tensor& gradient) {
    const bool is_active = !weight.is_frozen, is_narrow = type != input.scalar_type();
    const bool by_kernel = is_active && !is_narrow;  // which sums in the type of the input
    auto [d_input, d_weight, d_bias] = at::native_layer_norm_backward(
        gradient, input, width, mean, scale, factor, shift, {true, by_kernel, by_kernel});
    if (!is_active) return Gradients{d_input};
    if (is_narrow) {
      accumulate_bias_gradient(weight, gradient.to(type) * ((input.to(type) - mean) * scale));
      accumulate_bias_gradient(bias, gradient);
      return Gradients{d_input};
    }
    at::Tensor weight_accumulator = weight.gradient, bias_accumulator = bias.gradient;
    weight_accumulator.add_(d_weight);
    bias_accumulator.add_(d_bias);
    return Gradients{d_input};
  });
}

at::Tensor swiglu_forward(const at::Tensor& up) {
  if (fused::has_kernels(up)) return fused::swiglu(up);
  const std::vector<at::Tensor> halves = up.chunk(2, -1);
  return at::silu(halves[0]).mul_(halves[1]);
}

at::Tensor swiglu_backward(const at::Tensor& gradient, const at::Tensor& up) {
  if (fused::has_kernels(up)) return fused::swiglu_backward(gradient.contiguous(), up);
  const std::vector<at::Tensor> halves = up.chunk(2, -1);
  at::Tensor result = at::empty_like(up);
  const std::vector<at::Tensor> into = result.chunk(2, -1);
  at::Tensor d_gate = into[0], d_up = into[1];
  d_gate.copy_(at::silu_backward(gradient * halves[1], halves[0]));
  at::mul_out(d_up, gradient, at::silu(halves[0]));
  return result;
}

at::Tensor swiglu(const at::Tensor& up) {
  const at::Tensor input = up.detach();
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = swiglu_forward(input);
  }
  return with_gradient(output, {up}, [input](const at::Tensor& gradient) {
    return Gradients{swiglu_backward(gradient, input)};
  });
}

at::Tensor gelu_tanh(const at::Tensor& x) { return at::gelu(x, "tanh"); }

namespace {

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const std::vector<at::Tensor> halves = x.to(cosine.scalar_type()).chunk(2, -1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1)
      .to(x.scalar_type());
}

}  // namespace

at::Tensor rotary(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = rotate(x.detach(), cosine, sine);
  }
  return with_gradient(output, {x}, [cosine, sine](const at::Tensor& gradient) {
    return Gradients{rotate(gradient, cosine, -sine)};
  });
}

std::pair<at::Tensor, at::Tensor> rotary_tables(int64_t length, int64_t head_dim, double theta,
                                                at::ScalarType type, at::Device device) {
  const auto options = at::TensorOptions().dtype(at_least_fp32(type));
  const at::Tensor exponent = at::arange(0, head_dim, 2, options) / head_dim;
  const at::Tensor frequency = 1.0 / at::pow(theta, exponent);
  const at::Tensor angle = at::outer(at::arange(length, options), frequency).unsqueeze(1);
  return {at::cos(angle).to(device), at::sin(angle).to(device)};
}

}  // namespace evermoe
