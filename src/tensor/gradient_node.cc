#include "tensor/gradient_node.h"

#include <memory>
#include <type_traits>

namespace evermoe {
namespace {

class FunctionNode : public torch::autograd::Node {
 public:
  explicit FunctionNode(BackwardOfMany backward) : backward_(std::move(backward)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::NoGradGuard no_grad;
    const BackwardOfMany backward = std::move(backward_);
    backward_ = nullptr;
    TORCH_CHECK(backward, "backward ran twice through one node");
    return backward(gradients);
  }

 private:
  BackwardOfMany backward_;
};

using NodePointer = decltype(torch::autograd::Edge::function);

// Of PyTorch's own pointer to nodes since 2.12, of std::shared_ptr before.
template <typename Pointer>
Pointer new_node(BackwardOfMany backward) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return Pointer(new FunctionNode(std::move(backward)));
  } else {
    return c10::make_intrusive<FunctionNode>(std::move(backward));
  }
}

}  // namespace

at::Tensor with_gradient(at::Tensor output, const std::vector<at::Tensor>& inputs,
                         BackwardFunction backward) {
  return with_gradients({std::move(output)}, inputs,
                        [backward = std::move(backward)](const auto& gradients) {
                          return backward(gradients[0]);
                        })[0];
}

std::vector<at::Tensor> with_gradients(std::vector<at::Tensor> outputs,
                                       const std::vector<at::Tensor>& inputs,
                                       BackwardOfMany backward) {
  if (!torch::autograd::compute_requires_grad(inputs)) return outputs;
  const auto node = new_node<NodePointer>(std::move(backward));
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (at::Tensor& output : outputs) torch::autograd::set_history(output, node);
  return outputs;
}

}  // namespace evermoe
