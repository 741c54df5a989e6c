#include "train/layers/gate.h"

#include "train/layers/layers.h"

namespace evermoe {
namespace {

struct TopK {
  at::Tensor weights;
  at::Tensor experts;
};

TopK weigh(const at::Tensor& logits, const at::Tensor& probabilities, const ModelShape& shape) {
  if (shape.scoring == ScoringKind::kTopKThenSoftmax) {
    auto [largest, experts] = at::topk(logits, shape.top_k, -1);
    return {at::softmax(largest, -1), experts};
  }
  auto [weights, experts] = at::topk(probabilities, shape.top_k, -1);
  if (shape.normalise_top_k) weights = weights / weights.sum(-1, /*keepdim=*/true);
  return {weights, experts};
}

at::Tensor auxiliary_loss(const at::Tensor& logits, const at::Tensor& probabilities,
                          const std::vector<int64_t>& load, int64_t choices,
                          const ModelShape& shape) {
  at::Tensor share = at::empty({shape.experts}, at::kDouble);
  for (int64_t e = 0; e < shape.experts; ++e) {
    share[e] = static_cast<double>(load[static_cast<size_t>(e)]) / static_cast<double>(choices);
  }
  const at::Tensor balance = at::dot(share.to(probabilities.options()), probabilities.mean(0)) *
                             static_cast<double>(shape.experts);
  const at::Tensor z = at::logsumexp(logits, -1).square().mean();
  return balance * shape.balance_loss + z * shape.z_loss;
}

// In FP64: sums of many micro-batches are made of them.
std::vector<double> sums_of(const at::Tensor& probabilities) {
  const at::Tensor sums = probabilities.detach().sum(0, /*keepdim=*/false, at::kDouble).cpu();
  const double* values = sums.const_data_ptr<double>();
  return {values, values + sums.numel()};
}

}  // namespace

GateChoice choose_experts(const at::Tensor& x, const Parameter& gate, const ModelShape& shape) {
  GateChoice choice;
  choice.load.assign(static_cast<size_t>(shape.experts), 0);
  choice.probability.assign(static_cast<size_t>(shape.experts), 0);
  const at::Tensor logits = linear_in_fp32(x, gate);
  if (x.size(0) == 0) {
    choice.weights = logits.narrow(1, 0, shape.top_k);
    return choice;
  }
  const at::Tensor probabilities = at::softmax(logits, -1);
  choice.probability = sums_of(probabilities);
  TopK top = weigh(logits, probabilities, shape);
  choice.weights = top.weights * shape.routed_scale;
  const at::Tensor experts = top.experts.cpu();
  const int64_t* chosen = experts.const_data_ptr<int64_t>();
  choice.experts.assign(chosen, chosen + experts.numel());
  for (const int64_t expert : choice.experts) ++choice.load[static_cast<size_t>(expert)];
  choice.auxiliary_loss = auxiliary_loss(logits, probabilities, choice.load,
                                         static_cast<int64_t>(choice.experts.size()), shape);
  return choice;
}

}  // namespace evermoe
