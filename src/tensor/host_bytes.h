// Host-visible bytes of tensors, wherever the tensors live. The transport and the store move host
// bytes; only this file knows whether a copy from or to a device is needed for that.
#pragma once

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

}  // namespace evermoe
