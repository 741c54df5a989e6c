#include "train/layers/gate.h"

#include <utility>
#include <vector>

#include "experts/load/synthetic_routing.h"
#include "tensor/gradient_node.h"
#include "tensor/host_bytes.h"
#include "train/layers/layers.h"

namespace evermoe {
namespace {

struct TopK {
  at::Tensor weights;
  at::Tensor experts;
};

struct Draw {
  at::Tensor experts;     // [T, top_k]
  at::Tensor popularity;  // [experts], that it goes by
};

Draw draw_experts(int64_t tokens, const ModelShape& shape, int layer, const TokenPlace& place,
                  at::Device device) {
  const SyntheticRouting routing{.seed = place.seed,
                                 .experts = static_cast<int>(shape.experts),
                                 .top_k = static_cast<int>(shape.top_k),
                                 .skew = shape.routing_skew,
                                 .drift_steps = shape.routing_drift_steps};
  const std::vector<double> popularity = synthetic_popularity(routing, layer, place.step);
  const std::vector<int64_t> choices =
      synthetic_choices(routing, layer, place.step, place.micro_batch, tokens, popularity);
  return {on_device<int64_t>(choices, device).view({tokens, shape.top_k}),
          on_device<double>(popularity, device)};
}

// values [T, top_k] of x [T, experts] at `experts`, with their gradient. Each element of x has at
// most one reader, so nothing is added up; PyTorch's own gradients of topk and gather are scatters,
// which a GPU brings into a fixed order by sorting.
at::Tensor with_gradient_of_chosen(const at::Tensor& values, const at::Tensor& x,
                                   const at::Tensor& experts) {
  return with_gradient(values, {x}, [experts, sizes = x.sizes().vec()](const at::Tensor& gradient) {
    if (gradient.is_cpu())
      return std::vector<at::Tensor>{
          at::zeros(sizes, gradient.options()).scatter_(-1, experts, gradient)};
    const at::Tensor all = at::arange(sizes[1], experts.options());
    const at::Tensor none = at::zeros({}, gradient.options());
    return std::vector<at::Tensor>{
        at::where(experts.unsqueeze(-1) == all, gradient.unsqueeze(-1), none).sum(1)};
  });
}

at::Tensor chosen_of(const at::Tensor& x, const at::Tensor& experts) {
  return with_gradient_of_chosen(x.detach().gather(-1, experts), x, experts);
}

std::pair<at::Tensor, at::Tensor> top_k(const at::Tensor& x, int64_t k) {
  const auto [largest, experts] = at::topk(x.detach(), k, -1);
  return {with_gradient_of_chosen(largest, x, experts), experts};
}

// What weigh() gives to the k largest, of experts that were chosen otherwise: they may be so
// unlikely that in FP32 nothing is left of their probabilities, by whose sum weigh() divides.
at::Tensor weigh_chosen(const at::Tensor& logits, const at::Tensor& probabilities,
                        const at::Tensor& experts, const ModelShape& shape) {
  if (shape.normalise_top_k || shape.scoring == ScoringKind::kTopKThenSoftmax)
    return at::softmax(chosen_of(logits, experts), -1);
  return chosen_of(probabilities, experts);
}

TopK weigh(const at::Tensor& logits, const at::Tensor& probabilities, const ModelShape& shape) {
  if (shape.scoring == ScoringKind::kTopKThenSoftmax) {
    auto [largest, experts] = top_k(logits, shape.top_k);
    return {at::softmax(largest, -1), experts};
  }
  auto [weights, experts] = top_k(probabilities, shape.top_k);
  if (shape.normalise_top_k) weights = weights / weights.sum(-1, /*keepdim=*/true);
  return {weights, experts};
}

// No scatter, so no additions in no fixed order, and no wait for the largest.
at::Tensor load_of(const at::Tensor& experts, int64_t count) {
  const at::Tensor all = at::arange(count, experts.options()).unsqueeze(1);
  return (all == experts.view({1, -1})).sum(1);
}

at::Tensor auxiliary_loss(const at::Tensor& logits, const at::Tensor& probabilities,
                          const at::Tensor& load, int64_t choices, const ModelShape& shape) {
  const at::Tensor shares =
      (load.to(at::kDouble) / static_cast<double>(choices)).to(probabilities.scalar_type());
  const at::Tensor balance =
      at::dot(shares, probabilities.mean(0)) * static_cast<double>(shape.experts);
  const at::Tensor z = at::logsumexp(logits, -1).square().mean();
  return balance * shape.balance_loss + z * shape.z_loss;
}

// In FP64: sums of many micro-batches are made of them.
at::Tensor sums_of(const at::Tensor& probabilities) {
  return probabilities.detach().sum(0, /*keepdim=*/false, at::kDouble);
}

}  // namespace

GateChoice choose_experts(const at::Tensor& x, const Parameter& gate, const ModelShape& shape,
                          int layer, const TokenPlace& place) {
  GateChoice choice;
  const at::Tensor logits = linear_in_fp32(x, gate);
  if (x.size(0) == 0) {
    choice.weights = logits.narrow(1, 0, shape.top_k);
    choice.experts = at::empty({0, shape.top_k}, x.options().dtype(at::kLong));
    choice.load = at::zeros({shape.experts}, x.options().dtype(at::kLong));
    choice.probability = at::zeros({shape.experts}, x.options().dtype(at::kDouble));
    return choice;
  }
  const at::Tensor probabilities = at::softmax(logits, -1);
  if (shape.routing == RoutingKind::kSynthetic) {
    const Draw draw = draw_experts(x.size(0), shape, layer, place, x.device());
    choice.experts = draw.experts;
    choice.weights = weigh_chosen(logits, probabilities, draw.experts, shape);
    choice.probability = draw.popularity * static_cast<double>(x.size(0));
  } else {
    const TopK top = weigh(logits, probabilities, shape);
    choice.experts = top.experts.contiguous();
    choice.weights = top.weights;
    choice.probability = sums_of(probabilities);
  }
  choice.weights = choice.weights * shape.routed_scale;
  choice.load = load_of(choice.experts, shape.experts);
  choice.auxiliary_loss =
      auxiliary_loss(logits, probabilities, choice.load, choice.experts.numel(), shape);
  return choice;
}

}  // namespace evermoe
