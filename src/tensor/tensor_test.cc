#include <gtest/gtest.h>

#include "base/error.h"
#include "tensor/gradient_node.h"
#include "tensor/host_bytes.h"
#include "tensor/torch.h"

namespace evermoe {
namespace {

TEST(GradientNodeTest, BackwardRunsOnceAndFeedsTheGraphBehindIt) {
  at::Tensor x = at::ones({3}).requires_grad_(true);
  const at::Tensor doubled = x * 2;
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    y = doubled.detach() + 1;
  }
  y = with_gradient(y, {doubled}, [](const at::Tensor& gradient) {
    return std::vector<at::Tensor>{gradient * 10};
  });
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({3}, 20.0f)));
}

TEST(GradientNodeTest, WithoutGradientsThereIsNoNode) {
  const at::NoGradGuard no_grad;
  at::Tensor x = at::ones({3}).requires_grad_(true);
  const at::Tensor y = with_gradient(
      x.detach() + 1, {x}, [](const at::Tensor& g) { return std::vector<at::Tensor>{g}; });
  EXPECT_FALSE(y.requires_grad());
}

TEST(GradientNodeTest, AStatusThrownInBackwardReachesTheCallerWithItsRank) {
  at::Tensor x = at::ones({3}).requires_grad_(true);
  const at::Tensor y =
      with_gradient(at::ones({3}), {x}, [](const at::Tensor&) -> std::vector<at::Tensor> {
        throw StatusError(PeerLost(Rank(2), "all-to-all"));
      });
  const absl::Status status = guard([&] {
    y.sum().backward();
    return absl::OkStatus();
  });
  EXPECT_EQ(accused_rank(status), Rank(2));
}

TEST(HostBytesTest, HostTensorsAreUsedInPlace) {
  at::Tensor x = at::zeros({4});
  HostWritable writable(x);
  writable.values<float>()[2] = 5;
  writable.commit();
  EXPECT_EQ(x[2].item<float>(), 5);
  EXPECT_EQ(HostReadable(x).bytes().size(), 16u);
}

}  // namespace
}  // namespace evermoe
