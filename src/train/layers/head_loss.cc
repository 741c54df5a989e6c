#include "train/layers/head_loss.h"

#include <algorithm>

#include "model/activation_bytes.h"
#include "tensor/gradient_node.h"
#include "tensor/wide_product.h"
#include "train/layers/layers.h"

namespace evermoe {
namespace {

struct HeadGradient {
  at::Tensor start;  // of the loss, a scalar
  at::Tensor count;  // of all targets
  at::Tensor input;  // [N, hidden], filled chunk by chunk
};

// Adds to the weight's gradient and fills these rows of the input's.
void backward_chunk(const HeadGradient& gradient, const at::Tensor& log_probabilities,
                    const at::Tensor& targets, const at::Tensor& x, int64_t first_row,
                    const Parameter& weight) {
  constexpr int64_t kIgnoreNone = -100;
  const at::Tensor d_log =
      at::nll_loss_backward(gradient.start, log_probabilities, targets, /*weight=*/{},
                            at::Reduction::Mean, kIgnoreNone, gradient.count);
  const at::Tensor d_logits =
      at::_log_softmax_backward_data(d_log, log_probabilities, -1, log_probabilities.scalar_type())
          .to(x.scalar_type());
  accumulate_weight_gradient(weight, d_logits, x);
  at::Tensor into = gradient.input.narrow(0, first_row, x.size(0));
  matrix_product_into(into, d_logits, weight.value);
}

}  // namespace

at::Tensor head_loss(const at::Tensor& x, const Parameter& weight, const at::Tensor& targets,
                     at::ScalarType type, double scale, int64_t* hits) {
  const bool has_gradient = at::GradMode::is_enabled() && x.requires_grad();
  const at::Tensor input = x.detach();
  const int64_t tokens = input.size(0),
                rows_max = logits_rows(weight.value.size(0), c10::elementSize(type));
  const at::NoGradGuard no_grad;
  const auto options = input.options().dtype(type);
  HeadGradient gradient;
  if (has_gradient)
    gradient = {at::full({}, scale, options), at::full({}, tokens, options), at::empty_like(input)};
  const at::Tensor chosen = at::empty({tokens, 1}, options);  // log-probability of each target
  for (int64_t first = 0; first < tokens; first += rows_max) {
    const int64_t rows = std::min(rows_max, tokens - first);
    const at::Tensor x_rows = input.narrow(0, first, rows),
                     target_rows = targets.narrow(0, first, rows);
    const at::Tensor log_probabilities =
        at::log_softmax(linear_product(x_rows, weight.value).to(type), -1);
    chosen.narrow(0, first, rows).copy_(log_probabilities.gather(1, target_rows.unsqueeze(1)));
    if (hits != nullptr)
      *hits += (log_probabilities.argmax(-1) == target_rows).sum().item<int64_t>();
    if (has_gradient)
      backward_chunk(gradient, log_probabilities, target_rows, x_rows, first, weight);
  }
  const at::Tensor loss = at::nll_loss(chosen, at::zeros_like(targets));
  if (!has_gradient) return loss;
  const at::AutoGradMode with_graph(true);
  return with_gradient(loss, {x}, [gradient](const at::Tensor& start) {
    // Elsewhere it would be waited for, in every micro-batch.
    CHECK(!start.is_cpu() || at::equal(start, gradient.start))
        << "the backward pass began with another scale than the forward pass";
    return std::vector<at::Tensor>{gradient.input};
  });
}

}  // namespace evermoe
