// Files of the operating system that are open: written, read or mapped. RealFiles opens them.
//
// Errors and threads as in env/files.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "env/files.h"
#include "env/named_descriptor.h"

namespace evermoe {

class RealWritableFile final : public WritableFile {
 public:
  // `direct_fd` writes past the page cache and is -1 where the file system cannot.
  RealWritableFile(int fd, int direct_fd, const std::string& path)
      : file_(fd, path), direct_(direct_fd, path), direct_works_(direct_fd >= 0) {}

  absl::Status append(std::span<const std::byte> bytes) override;
  absl::Status write_at(int64_t offset, std::span<const std::byte> bytes) override;
  absl::Status truncate(int64_t size) override;
  absl::Status sync() override;
  absl::Status close() override;

 private:
  NamedDescriptor file_;
  NamedDescriptor direct_;
  std::atomic<bool> direct_works_;
  int64_t end_ = 0;  // where append() goes on
};

class RealReadableFile final : public ReadableFile {
 public:
  RealReadableFile(int fd, const std::string& path, int64_t size) : file_(fd, path), size_(size) {}

  int64_t size() const override { return size_; }
  absl::Status read_at(int64_t offset, std::span<std::byte> into) override;
  void prefetch(int64_t offset, int64_t size) override;

 private:
  NamedDescriptor file_;
  int64_t size_;
};

// Owns a mapping.
class RealMappedFile final : public MappedFile {
 public:
  // Of the whole file; `bytes` may be empty.
  explicit RealMappedFile(std::span<std::byte> bytes) : bytes_(bytes) {}
  ~RealMappedFile() override;
  std::span<const std::byte> bytes() const override { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace evermoe
