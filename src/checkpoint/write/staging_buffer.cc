#include "checkpoint/write/staging_buffer.h"

#include <sys/mman.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr int64_t kHugePageBytes = 2 << 20;
// A device copy of one shard takes seconds; this only ends a wait that would never end.
constexpr absl::Duration kCopyDeadline = absl::Minutes(30);

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;
#endif

}  // namespace

StagingBuffer::~StagingBuffer() { release(); }

void StagingBuffer::release() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
}

absl::Status StagingBuffer::reserve(int64_t bytes) {
  if (bytes <= static_cast<int64_t>(bytes_.size())) return absl::OkStatus();
  release();
  const size_t size =
      static_cast<size_t>((bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return NoCapacity(absl::StrCat("no memory for ", size, " bytes of checkpoint staging"));
  }
  bytes_ = {static_cast<std::byte*>(memory), size};
  ::madvise(memory, size, MADV_HUGEPAGE);                   // a wish
  if (::madvise(memory, size, MADV_POPULATE_WRITE) != 0) {  // kernels before 5.14
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0});
  }
  return absl::OkStatus();
}

void StagingProgress::advance(int64_t filled) {
  Monitor::Lock lock(monitor_);
  filled_ = filled;
}

void StagingProgress::fail(const absl::Status& error) {
  Monitor::Lock lock(monitor_);
  error_ = error;
}

absl::Status StagingProgress::wait_for(int64_t filled) {
  Monitor::Lock lock(monitor_);
  if (!lock.wait(kCopyDeadline, [&] { return filled_ >= filled || !error_.ok(); })) {
    return Timeout("copying the state for a checkpoint does not go on");
  }
  return error_;
}

}  // namespace evermoe
