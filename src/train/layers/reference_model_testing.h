// The same model in plain torch, for comparison: one process, autograd leaves, obvious operations
// (masked softmax attention, a loop over experts) and torch's own AdamW. Nothing here is shared
// with the trainer but the operators' names and shapes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/job_config.h"
#include "model/operator.h"
#include "tensor/torch.h"

namespace evermoe {

class ReferenceModel {
 public:
  // Initial weights of `seed` in the given type.
  ReferenceModel(const ModelShape& shape, uint64_t seed, at::ScalarType type);

  struct Losses {
    at::Tensor loss;       // mean cross-entropy
    at::Tensor auxiliary;  // balance and z losses
  };
  // inputs, targets [B, T]
  Losses forward(const at::Tensor& inputs, const at::Tensor& targets) const;

  // One step over the given micro-batches: gradients of the mean of loss + auxiliary, clipped by
  // global norm, AdamW. Returns the mean loss. With apply false only the gradients are made.
  double step(const std::vector<std::pair<at::Tensor, at::Tensor>>& micro_batches,
              const TrainConfig& train, double learning_rate, bool apply);

  // Flat layout of one operator, of its weights or gradients.
  at::Tensor flat_weights(const std::string& operator_name) const;
  at::Tensor flat_gradients(const std::string& operator_name) const;
  const std::vector<OperatorSpec>& operators() const { return operators_; }
  double gradient_norm() const;

 private:
  struct Adam;
  const at::Tensor& weight(const std::string& operator_name, const std::string& parameter) const;
  bool has(const std::string& operator_name, const std::string& parameter) const;
  at::Tensor affine(const at::Tensor& x, const std::string& op, const std::string& name) const;
  at::Tensor norm(const at::Tensor& x, const std::string& op, const std::string& name) const;
  at::Tensor feed_forward(const at::Tensor& x, const std::string& op,
                          const std::string& prefix) const;
  at::Tensor attention(const at::Tensor& x, const std::string& op) const;
  at::Tensor mixture(const at::Tensor& x, int64_t layer, at::Tensor& auxiliary) const;
  at::Tensor flat(const OperatorSpec& spec, bool gradients) const;
  const OperatorSpec& spec(const std::string& name) const;

  const ModelShape shape_;
  const at::ScalarType type_;
  std::vector<OperatorSpec> operators_;
  std::map<std::string, at::Tensor> weights_;  // "operator/parameter"
  std::shared_ptr<Adam> adam_;
};

}  // namespace evermoe
