// The memory a checkpoint is copied to before it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "checkpoint/write/monitor.h"

namespace evermoe {

// Page-aligned memory that grows and is used again. First touch of fresh memory costs six times a
// copy, so all pages are there when reserve() returns. One thread at a time.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  // At least this many bytes from now on; the content is lost when it grows. NoCapacity if the
  // system has no memory for it.
  absl::Status reserve(int64_t bytes);
  std::span<std::byte> bytes() { return bytes_; }

 private:
  void release();
  std::span<std::byte> bytes_;
};

// How far the staging memory is filled, so that writing begins while copying goes on. Any thread.
class StagingProgress {
 public:
  // Bytes [0, filled) will not change any more.
  void advance(int64_t filled);
  // Copying failed: everybody who waits gets this error.
  void fail(const absl::Status& error);
  // Returns when bytes [0, filled) are there. Timeout if the copying thread is stuck.
  absl::Status wait_for(int64_t filled);

 private:
  Monitor monitor_;  // guards what follows
  int64_t filled_ = 0;
  absl::Status error_;
};

}  // namespace evermoe
