#include "tensor/product_rate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "tensor/torch.h"

namespace evermoe {

double fp32_product_rate(int threads) {
  constexpr int64_t kSize = 1536;
  constexpr int kRounds = 7;
  at::set_num_threads(threads);
  const at::NoGradGuard no_gradients;
  const at::Tensor a = at::ones({kSize, kSize}), b = at::ones({kSize, kSize});
  at::Tensor product = at::mm(a, b);  // the first one starts threads and touches pages
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const auto began = std::chrono::steady_clock::now();
    at::mm_out(product, a, b);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return 2.0 * kSize * kSize * kSize / seconds[kRounds / 2];
}

}  // namespace evermoe
