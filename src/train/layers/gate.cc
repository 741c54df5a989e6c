#include "train/layers/gate.h"

#include <algorithm>
#include <span>

#include "experts/load/synthetic_routing.h"
#include "tensor/host_bytes.h"
#include "train/layers/layers.h"

namespace evermoe {
namespace {

struct TopK {
  at::Tensor weights;
  at::Tensor experts;
};

struct Draw {
  at::Tensor experts;              // [T, top_k] on the host
  std::vector<double> popularity;  // that it goes by
};

Draw draw_experts(int64_t tokens, const ModelShape& shape, int layer, const TokenPlace& place) {
  const SyntheticRouting routing{.seed = place.seed,
                                 .experts = static_cast<int>(shape.experts),
                                 .top_k = static_cast<int>(shape.top_k),
                                 .skew = shape.routing_skew,
                                 .drift_steps = shape.routing_drift_steps};
  Draw draw;
  draw.popularity = synthetic_popularity(routing, layer, place.step);
  const std::vector<int64_t> choices =
      synthetic_choices(routing, layer, place.step, place.micro_batch, tokens, draw.popularity);
  draw.experts = at::empty({tokens, shape.top_k}, at::kLong);
  std::ranges::copy(choices, host_values<int64_t>(draw.experts).begin());
  return draw;
}

// What weigh() gives to the k largest, of experts that were chosen otherwise: they may be so
// unlikely that in FP32 nothing is left of their probabilities, by whose sum weigh() divides.
at::Tensor weigh_chosen(const at::Tensor& logits, const at::Tensor& probabilities,
                        const at::Tensor& experts, const ModelShape& shape) {
  if (shape.normalise_top_k || shape.scoring == ScoringKind::kTopKThenSoftmax)
    return at::softmax(logits.gather(-1, experts), -1);
  return probabilities.gather(-1, experts);
}

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
  std::vector<double> share;
  for (const int64_t tokens : load)
    share.push_back(static_cast<double>(tokens) / static_cast<double>(choices));
  const at::Tensor shares =
      on_device<double>(share, probabilities.device()).to(probabilities.scalar_type());
  const at::Tensor balance =
      at::dot(shares, probabilities.mean(0)) * static_cast<double>(shape.experts);
  const at::Tensor z = at::logsumexp(logits, -1).square().mean();
  return balance * shape.balance_loss + z * shape.z_loss;
}

// In FP64: sums of many micro-batches are made of them.
std::vector<double> sums_of(const at::Tensor& probabilities) {
  const at::Tensor sums = probabilities.detach().sum(0, /*keepdim=*/false, at::kDouble).cpu();
  const std::span<const double> values = host_values<double>(sums);
  return {values.begin(), values.end()};
}

}  // namespace

GateChoice choose_experts(const at::Tensor& x, const Parameter& gate, const ModelShape& shape,
                          int layer, const TokenPlace& place) {
  GateChoice choice;
  choice.load.assign(static_cast<size_t>(shape.experts), 0);
  choice.probability.assign(static_cast<size_t>(shape.experts), 0);
  const at::Tensor logits = linear_in_fp32(x, gate);
  if (x.size(0) == 0) {
    choice.weights = logits.narrow(1, 0, shape.top_k);
    return choice;
  }
  const at::Tensor probabilities = at::softmax(logits, -1);
  TopK top;
  if (shape.routing == RoutingKind::kSynthetic) {
    Draw draw = draw_experts(x.size(0), shape, layer, place);
    top.experts = draw.experts;
    top.weights =
        weigh_chosen(logits, probabilities, draw.experts.to(probabilities.device()), shape);
    for (double& one : draw.popularity) one *= static_cast<double>(x.size(0));
    choice.probability = std::move(draw.popularity);
  } else {
    top = weigh(logits, probabilities, shape);
    choice.probability = sums_of(probabilities);
  }
  choice.weights = top.weights * shape.routed_scale;
  const at::Tensor experts = top.experts.cpu().contiguous();
  const std::span<const int64_t> chosen = host_values<int64_t>(experts);
  choice.experts.assign(chosen.begin(), chosen.end());
  for (const int64_t expert : choice.experts) ++choice.load[static_cast<size_t>(expert)];
  choice.auxiliary_loss = auxiliary_loss(logits, probabilities, choice.load,
                                         static_cast<int64_t>(choice.experts.size()), shape);
  return choice;
}

}  // namespace evermoe
