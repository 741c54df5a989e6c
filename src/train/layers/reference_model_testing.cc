#include "train/layers/reference_model_testing.h"

#include <torch/optim/adamw.h>

#include <cmath>

#include "model/initial_state.h"
#include "tensor/host_bytes.h"

namespace evermoe {

struct ReferenceModel::Adam {
  std::unique_ptr<torch::optim::AdamW> optimizer;
};

ReferenceModel::ReferenceModel(const ModelShape& shape, uint64_t seed, at::ScalarType type)
    : shape_(shape), type_(type), operators_(model_operators(shape)) {
  for (const OperatorSpec& op : operators_) {
    at::Tensor initial = at::empty({op.flat_size}, at::kFloat);
    fill_initial_weights(op, seed, {0, op.flat_size}, host_values<float>(initial));
    for (const ParameterSpec& parameter : op.parameters) {
      weights_[op.name + "/" + parameter.name] =
          initial.narrow(0, parameter.offset, parameter.numel())
              .view(parameter.shape)
              .to(type)
              .clone()
              .requires_grad_(true);
    }
  }
}

const OperatorSpec& ReferenceModel::spec(const std::string& name) const {
  for (const OperatorSpec& op : operators_) {
    if (op.name == name) return op;
  }
  CHECK(false) << name;
  __builtin_unreachable();
}

const at::Tensor& ReferenceModel::weight(const std::string& op,
                                         const std::string& parameter) const {
  return weights_.at(op + "/" + parameter);
}
bool ReferenceModel::has(const std::string& op, const std::string& parameter) const {
  return weights_.contains(op + "/" + parameter);
}

at::Tensor ReferenceModel::affine(const at::Tensor& x, const std::string& op,
                                  const std::string& name) const {
  at::Tensor y = at::matmul(x, weight(op, name + ".weight").t());
  return has(op, name + ".bias") ? y + weight(op, name + ".bias") : y;
}

at::Tensor ReferenceModel::norm(const at::Tensor& x, const std::string& op,
                                const std::string& name) const {
  const at::Tensor& w = weight(op, name + ".weight");
  if (shape_.norm == NormKind::kRmsNorm) {
    return x / at::sqrt((x * x).mean(-1, true) + shape_.norm_epsilon) * w;
  }
  const at::Tensor centred = x - x.mean(-1, true);
  return centred / at::sqrt((centred * centred).mean(-1, true) + shape_.norm_epsilon) * w +
         weight(op, name + ".bias");
}

at::Tensor ReferenceModel::feed_forward(const at::Tensor& x, const std::string& op,
                                        const std::string& prefix) const {
  at::Tensor up = affine(x, op, prefix + "up");
  if (shape_.activation == ActivationKind::kSwiGlu) {
    const int64_t width = up.size(-1) / 2;
    const at::Tensor gate = up.narrow(-1, 0, width);
    up = gate * at::sigmoid(gate) * up.narrow(-1, width, width);
  } else {
    up = 0.5 * up * (1 + at::tanh(std::sqrt(2.0 / M_PI) * (up + 0.044715 * up * up * up)));
  }
  return affine(up, op, prefix + "down");
}

at::Tensor ReferenceModel::attention(const at::Tensor& x, const std::string& op) const {
  const int64_t batch = x.size(0), length = x.size(1), d = shape_.head_dim;
  const at::Tensor qkv = affine(x, op, "attention.qkv").view({batch, length, -1, d});
  std::vector<at::Tensor> heads;
  const at::Tensor position = at::arange(length, at::kDouble);
  for (int64_t h = 0; h < shape_.heads; ++h) {
    const int64_t kv = h / (shape_.heads / shape_.kv_heads);
    at::Tensor q = qkv.select(2, h), k = qkv.select(2, shape_.heads + kv);
    const at::Tensor v = qkv.select(2, shape_.heads + shape_.kv_heads + kv);
    if (shape_.position == PositionKind::kRotary) {
      const at::Tensor frequency =
          at::pow(shape_.rope_theta, -at::arange(0, d, 2, at::kDouble) / d);
      const at::Tensor angle = at::outer(position, frequency);
      const at::Tensor c = at::cos(angle).to(type_), s = at::sin(angle).to(type_);
      const auto rotate = [&](const at::Tensor& t) {
        const at::Tensor a = t.narrow(-1, 0, d / 2), b = t.narrow(-1, d / 2, d / 2);
        return at::cat({a * c - b * s, b * c + a * s}, -1);
      };
      q = rotate(q);
      k = rotate(k);
    }
    at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(d));
    const at::Tensor future = at::ones({length, length}, at::kBool).triu(1);
    scores = scores.masked_fill(future, -INFINITY);
    heads.push_back(at::matmul(at::softmax(scores, -1), v));
  }
  return affine(at::stack(heads, 2).reshape({batch, length, -1}), op, "attention.out");
}

at::Tensor ReferenceModel::mixture(const at::Tensor& x, int64_t layer,
                                   at::Tensor& auxiliary) const {
  const std::string prefix = "layer." + std::to_string(layer) + ".";
  const at::Tensor logits = at::matmul(x, weight(prefix + "gate", "weight").t());
  const at::Tensor probabilities = at::softmax(logits, -1);
  const bool logits_first = shape_.scoring == ScoringKind::kTopKThenSoftmax;
  auto [values, experts] = at::topk(logits_first ? logits : probabilities, shape_.top_k, -1);
  at::Tensor weights = logits_first ? at::softmax(values, -1) : values;
  if (!logits_first && shape_.normalise_top_k) weights = weights / weights.sum(-1, true);
  weights = weights * shape_.routed_scale;
  at::Tensor output = at::zeros_like(x);
  const auto choices = static_cast<double>(x.size(0) * shape_.top_k);
  for (int64_t e = 0; e < shape_.experts; ++e) {
    const at::Tensor chosen = (experts == e).to(type_);  // [T, k]
    const at::Tensor share = (weights * chosen).sum(-1, true);
    output = output + share * feed_forward(x, prefix + "expert." + std::to_string(e), "");
    auxiliary = auxiliary + shape_.balance_loss * static_cast<double>(shape_.experts) *
                                (chosen.sum() / choices) * probabilities.select(1, e).mean();
  }
  auxiliary = auxiliary + shape_.z_loss * at::pow(at::log(at::exp(logits).sum(-1)), 2).mean();
  return output;
}

ReferenceModel::Losses ReferenceModel::forward(const at::Tensor& inputs,
                                               const at::Tensor& targets) const {
  at::Tensor x = weight("embedding", "token.weight").index({inputs});
  if (shape_.position == PositionKind::kLearned) x = x + weight("embedding", "position.weight");
  Losses losses{{}, at::zeros({}, type_)};
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    const std::string block = "layer." + std::to_string(layer) + ".block";
    x = x + attention(norm(x, block, "norm1"), block);
    const at::Tensor normal = norm(x, block, "norm2").reshape({-1, shape_.hidden});
    at::Tensor added;
    if (!shape_.is_moe_layer(layer)) {
      added = feed_forward(normal, block, "ffn.");
    } else {
      added = mixture(normal, layer, losses.auxiliary);
      if (shape_.shared_hidden > 0) {
        at::Tensor shared = feed_forward(normal, block, "shared.");
        if (shape_.shared_gate) shared = shared * at::sigmoid(affine(normal, block, "shared_gate"));
        added = added + shared;
      }
    }
    x = x + added.view_as(x);
  }
  const at::Tensor logits =
      at::matmul(norm(x, "head", "norm"), weight("head", "output.weight").t());
  losses.loss = -at::log_softmax(logits, -1).gather(-1, targets.unsqueeze(-1)).mean();
  return losses;
}

double ReferenceModel::gradient_norm() const {
  double sum = 0;
  for (const auto& [name, w] : weights_)
    sum += w.grad().to(at::kDouble).square().sum().item<double>();
  return std::sqrt(sum);
}

double ReferenceModel::step(const std::vector<std::pair<at::Tensor, at::Tensor>>& micro_batches,
                            const TrainConfig& train, double learning_rate, bool apply) {
  for (auto& [name, w] : weights_) w.mutable_grad() = at::zeros_like(w);
  double loss = 0;
  const auto count = static_cast<double>(micro_batches.size());
  for (const auto& [inputs, targets] : micro_batches) {
    const Losses losses = forward(inputs, targets);
    ((losses.loss + losses.auxiliary) / count).backward();
    loss += losses.loss.item<double>() / count;
  }
  if (!apply) return loss;
  const double norm = gradient_norm();
  if (train.clip_norm > 0 && norm > train.clip_norm) {
    for (auto& [name, w] : weights_) w.mutable_grad().mul_(train.clip_norm / norm);
  }
  if (adam_ == nullptr) {
    const auto options = [&](double decay) {
      return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(learning_rate)
                                                              .betas({train.beta1, train.beta2})
                                                              .eps(train.epsilon)
                                                              .weight_decay(decay));
    };
    std::vector<at::Tensor> decayed, undecayed;
    for (const OperatorSpec& op : operators_) {
      for (const ParameterSpec& p : op.parameters) {
        (p.decayed ? decayed : undecayed).push_back(weights_.at(op.name + "/" + p.name));
      }
    }
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(decayed, options(train.weight_decay));
    groups.emplace_back(undecayed, options(0));
    adam_ = std::make_shared<Adam>();
    adam_->optimizer =
        std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions(learning_rate));
  }
  for (auto& group : adam_->optimizer->param_groups()) group.options().set_lr(learning_rate);
  adam_->optimizer->step();
  return loss;
}

at::Tensor ReferenceModel::flat(const OperatorSpec& op, bool gradients) const {
  at::Tensor result = at::zeros({op.flat_size}, type_);
  for (const ParameterSpec& p : op.parameters) {
    const at::Tensor& w = weight(op.name, p.name);
    result.narrow(0, p.offset, p.numel()).copy_((gradients ? w.grad() : w.detach()).flatten());
  }
  return result;
}

at::Tensor ReferenceModel::flat_weights(const std::string& name) const {
  return flat(spec(name), false);
}
at::Tensor ReferenceModel::flat_gradients(const std::string& name) const {
  return flat(spec(name), true);
}

}  // namespace evermoe
