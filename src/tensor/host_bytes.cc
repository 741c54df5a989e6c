#include "tensor/host_bytes.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>

#include "base/check.h"

namespace evermoe {
namespace {

at::Tensor host_view(std::byte* bytes, size_t size) {
  return at::from_blob(bytes, {static_cast<int64_t>(size)}, at::kByte);
}

at::Tensor device_view(const at::Tensor& tensor, int64_t offset, size_t size) {
  CHECK(tensor.is_contiguous());
  return tensor.flatten().view(at::kByte).narrow(0, offset, static_cast<int64_t>(size));
}

// Behind everything that was started so far.
c10::Stream copy_stream(const c10::impl::VirtualGuardImpl& implementation, at::Device device) {
  const c10::Stream stream = implementation.getStreamFromGlobalPool(device);
  c10::Event written(device.type());
  written.record(implementation.getDefaultStream(device));
  written.block(stream);
  return stream;
}

}  // namespace

at::Tensor host_memory_for(at::Device device, int64_t elements, at::ScalarType type) {
  return at::empty({elements}, at::TensorOptions().dtype(type).pinned_memory(device.is_cuda()));
}

std::span<std::byte> host_bytes(const at::Tensor& tensor) {
  CHECK(tensor.is_cpu() && tensor.is_contiguous()) << "not in host memory";
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

void copy_to_host(const at::Tensor& tensor, int64_t offset, std::span<std::byte> into) {
  if (into.empty()) return;
  if (tensor.is_cpu()) {
    const std::span<const std::byte> from = host_bytes(tensor);
    std::memcpy(into.data(), from.subspan(static_cast<size_t>(offset), into.size()).data(),
                into.size());
    return;
  }
  const c10::impl::VirtualGuardImpl implementation(tensor.device().type());
  const c10::StreamGuard guard(copy_stream(implementation, tensor.device()));
  host_view(into.data(), into.size()).copy_(device_view(tensor, offset, into.size()));
}

void copy_from_host(std::span<const std::byte> from, const at::Tensor& tensor, int64_t offset) {
  if (from.empty()) return;
  if (tensor.is_cpu()) {
    const std::span<std::byte> into = host_bytes(tensor);
    std::memcpy(into.subspan(static_cast<size_t>(offset), from.size()).data(), from.data(),
                from.size());
    return;
  }
  device_view(tensor, offset, from.size())
      .copy_(host_view(const_cast<std::byte*>(from.data()), from.size()));
}

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
