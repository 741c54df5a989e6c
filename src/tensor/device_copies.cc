#include "tensor/device_copies.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

constexpr size_t kBlockAlignment = 256;

}  // namespace

DeviceMoment::DeviceMoment(at::Device device) : event_(device.type()) {
  event_.record(c10::impl::VirtualGuardImpl(device.type()).getDefaultStream(device));
}

CopyToHost::CopyToHost(const DeviceMoment& written)
    : stream_(c10::impl::VirtualGuardImpl(written.device().type())
                  .getStreamFromGlobalPool(written.device())) {
  written.event_.block(stream_);
}

void CopyToHost::add(const at::Tensor& tensor, int64_t offset, std::span<std::byte> into) {
  if (into.empty()) return;
  CHECK(tensor.device() == stream_.device() && tensor.is_contiguous());
  const auto size = static_cast<int64_t>(into.size());
  const c10::StreamGuard guard(stream_);
  is_waited_for_ = false;
  at::from_blob(into.data(), {size}, at::kByte)
      .copy_(tensor.flatten().view(at::kByte).narrow(0, offset, size), /*non_blocking=*/true);
}

void CopyToHost::wait() {
  if (std::exchange(is_waited_for_, true)) return;
  stream_.synchronize();
}

std::shared_ptr<std::byte[]> CopyMemory::take(size_t bytes) {
  CHECK(bytes <= kSlabBytes) << bytes;
  if (bytes > kSlabBytes - used_) {
    newest_ = std::make_shared<at::Tensor>(
        host_memory_for(device_, static_cast<int64_t>(kSlabBytes), at::kByte));
    used_ = 0;
  }
  const std::shared_ptr<std::byte[]> block(newest_, host_bytes(*newest_).data() + used_);
  const size_t cut = (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  used_ = std::min(used_ + cut, kSlabBytes);
  return block;
}

}  // namespace evermoe
