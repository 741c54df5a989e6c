#include "tensor/host_bytes.h"

#include "base/check.h"

namespace evermoe {

HostReadable::HostReadable(const at::Tensor& tensor)
    : host_(tensor.is_cpu() ? tensor : tensor.cpu()) {
  CHECK(host_.is_contiguous());
}

std::span<const std::byte> HostReadable::bytes() const {
  return {static_cast<const std::byte*>(host_.const_data_ptr()), host_.nbytes()};
}

HostWritable::HostWritable(const at::Tensor& tensor, Contents contents) : tensor_(tensor) {
  CHECK(tensor.is_contiguous());
  if (tensor.is_cpu()) {
    host_ = tensor;
  } else if (contents == Contents::kLoaded) {
    host_ = tensor.cpu();
  } else {
    host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  }
}

std::span<std::byte> HostWritable::bytes() const {
  return {static_cast<std::byte*>(host_.data_ptr()), host_.nbytes()};
}

void HostWritable::commit() {
  if (!host_.is_same(tensor_)) tensor_.copy_(host_);
}

}  // namespace evermoe
