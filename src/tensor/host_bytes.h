// Host-visible bytes of tensors, wherever the tensors live. The transport and the store move host
// bytes; only this file knows whether a copy from or to a device is needed for that.
//
// What is read is what the kernels before have written, whichever thread started them; what is
// written is there for the kernels after. All calls return when the bytes are where they belong.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "tensor/torch.h"

namespace evermoe {

// The bytes of a contiguous tensor, to be read. In place for host memory; a copy otherwise, taken
// now. Valid as long as this object.
class HostReadable {
 public:
  explicit HostReadable(const at::Tensor& tensor);
  std::span<const std::byte> bytes() const;
  template <typename T>
  std::span<const T> values() const {
    return {static_cast<const T*>(host_.const_data_ptr()), static_cast<size_t>(host_.numel())};
  }

 private:
  at::Tensor host_;
};

// Host memory that becomes the contents of a contiguous tensor at commit(). In place for host
// memory, where it also shows the present contents; undefined contents otherwise, unless `load`.
class HostWritable {
 public:
  enum class Contents { kUndefined, kLoaded };
  explicit HostWritable(const at::Tensor& tensor, Contents contents = Contents::kUndefined);
  std::span<std::byte> bytes() const;
  template <typename T>
  std::span<T> values() const {
    return {static_cast<T*>(host_.data_ptr()), static_cast<size_t>(host_.numel())};
  }
  void commit();

 private:
  at::Tensor tensor_;
  at::Tensor host_;
};

// A 1-D tensor in host memory from which the device copies without the help of a thread.
at::Tensor host_memory_for(at::Device device, int64_t elements, at::ScalarType type);

// Of a contiguous tensor that is known to be in host memory: where it lies.
std::span<std::byte> host_bytes(const at::Tensor& tensor);
template <typename T>
std::span<T> host_values(const at::Tensor& tensor) {
  return {reinterpret_cast<T*>(host_bytes(tensor).data()), static_cast<size_t>(tensor.numel())};
}

// The values as a 1-D tensor of their type on a device. Does not wait for the device.
template <typename T>
at::Tensor on_device(std::span<const T> values, at::Device device) {
  const at::Tensor host = host_memory_for(device, static_cast<int64_t>(values.size()),
                                          c10::CppTypeToScalarType<T>::value);
  std::ranges::copy(values, host_values<T>(host).begin());
  return host.to(device, /*non_blocking=*/true);
}

// `into` := bytes [offset, offset + into.size()) of a contiguous tensor. Any thread, while others
// read the tensor, too. On a device the copy does not hold up the kernels behind it: it has a
// stream of its own.
void copy_to_host(const at::Tensor& tensor, int64_t offset, std::span<std::byte> into);
// The reverse. Nobody else uses the tensor.
void copy_from_host(std::span<const std::byte> from, const at::Tensor& tensor, int64_t offset);

}  // namespace evermoe
