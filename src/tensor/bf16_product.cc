#include "tensor/bf16_product.h"

#include <dnnl.hpp>

namespace evermoe {
namespace {

using dnnl::memory;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr adding_to_result() {
  dnnl::post_ops sum;
  sum.append_sum(1.0f);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(sum);
  return attributes;
}

memory memory_of(const memory::desc& desc, const void* data) {
  return {desc, cpu(), const_cast<void*>(data)};
}

}  // namespace

void add_bf16_product(ProductSizes sizes, const uint16_t* a, const uint16_t* b, float* sum) {
  const memory::desc left({sizes.out, sizes.rows}, memory::data_type::bf16,
                          memory::dims{1, sizes.out});
  const memory::desc right({sizes.rows, sizes.in}, memory::data_type::bf16,
                           memory::dims{sizes.in, 1});
  const memory::desc result({sizes.out, sizes.in}, memory::data_type::f32,
                            memory::dims{sizes.in, 1});
  static const dnnl::primitive_attr attributes = adding_to_result();
  // The library keeps what it has generated for these sizes.
  const dnnl::matmul::primitive_desc product(dnnl::matmul::desc(left, right, result), attributes,
                                             cpu());
  dnnl::stream stream(cpu());
  dnnl::matmul(product).execute(stream, {{DNNL_ARG_SRC, memory_of(left, a)},
                                         {DNNL_ARG_WEIGHTS, memory_of(right, b)},
                                         {DNNL_ARG_DST, memory_of(result, sum)}});
  stream.wait();
}

std::string product_library_version() {
  const dnnl_version_t& version = *dnnl::version();
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

}  // namespace evermoe
