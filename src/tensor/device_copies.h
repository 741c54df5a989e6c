// Copies from a device to the host that go on beside its kernels, and host memory that they are
// fast into. Not for CPUs, whose memory the host has at hand (tensor/host_bytes.h).
#pragma once

#include <c10/core/Event.h>

#include <cstddef>
#include <memory>
#include <span>

#include "tensor/torch.h"

namespace evermoe {

// What the kernels that were started so far write. Made on the thread that starts them; any thread
// may let copies wait for it, at any time.
class DeviceMoment {
 public:
  explicit DeviceMoment(at::Device device);
  at::Device device() const { return event_.device(); }

 private:
  friend class CopyToHost;
  c10::Event event_;
};

// Bytes of tensors on their way to host memory, from as they were at a moment: nothing that is
// started later holds them up. Threads: one at a time.
class CopyToHost {
 public:
  explicit CopyToHost(const DeviceMoment& written);
  ~CopyToHost() { wait(); }
  CopyToHost(const CopyToHost&) = delete;
  CopyToHost& operator=(const CopyToHost&) = delete;

  // `into` := bytes [offset, offset + into.size()) of a contiguous tensor. Neither may change, nor
  // go away, before wait().
  void add(const at::Tensor& tensor, int64_t offset, std::span<std::byte> into);
  // Returns when all bytes are there.
  void wait();

 private:
  c10::Stream stream_;
  bool is_waited_for_ = true;
};

// Host memory that a device writes to by itself, in blocks that are kept for long. Taking such
// memory from the system is slow, and PyTorch, which keeps what was freed, rounds up to powers of
// two; so blocks are cut from slabs, one after the other, and a slab is free when all its blocks
// are. Threads: one takes; any frees.
class CopyMemory {
 public:
  static constexpr size_t kSlabBytes = size_t{64} << 20;
  explicit CopyMemory(at::Device device) : device_(device) {}
  // Undefined contents. REQUIRES: bytes <= kSlabBytes
  std::shared_ptr<std::byte[]> take(size_t bytes);

 private:
  const at::Device device_;
  std::shared_ptr<at::Tensor> newest_;
  size_t used_ = kSlabBytes;  // of the newest
};

}  // namespace evermoe
