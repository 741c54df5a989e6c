#include "tensor/gradient_node.h"

namespace evermoe {
namespace {

class FunctionNode : public torch::autograd::Node {
 public:
  explicit FunctionNode(BackwardFunction backward) : backward_(std::move(backward)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::NoGradGuard no_grad;
    const BackwardFunction backward = std::move(backward_);
    backward_ = nullptr;
    TORCH_CHECK(backward, "backward ran twice through one node");
    return backward(gradients[0]);
  }

 private:
  BackwardFunction backward_;
};

}  // namespace

at::Tensor with_gradient(at::Tensor output, const std::vector<at::Tensor>& inputs,
                         BackwardFunction backward) {
  if (!torch::autograd::compute_requires_grad(inputs)) return output;
  auto node = c10::make_intrusive<FunctionNode>(std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace evermoe
