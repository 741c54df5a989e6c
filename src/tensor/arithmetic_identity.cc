#include "tensor/arithmetic_identity.h"

#include "absl/strings/str_cat.h"
#include "tensor/bf16_product.h"
#include "tensor/torch.h"

namespace evermoe {

std::string arithmetic_identity() {
  return absl::StrCat(
      "torch=", EVERMOE_TORCH_VERSION, "\ncpu_capability=", at::get_cpu_capability(),
      "\nonednn=", product_library_version(), "\ncompute_threads=", at::get_num_threads(), "\n");
}

void set_compute_threads(int threads) { at::set_num_threads(threads); }

}  // namespace evermoe
