#include "env/real_open_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

// False with errno set where the system refuses.
bool write_all(int fd, int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return true;
}

}  // namespace

absl::Status RealWritableFile::append(std::span<const std::byte> bytes) {
  if (!write_all(file_.get(), end_, bytes)) return file_.failed("write");
  end_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status RealWritableFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  const uint64_t together =
      static_cast<uint64_t>(offset) | bytes.size() | reinterpret_cast<uintptr_t>(bytes.data());
  if (direct_works_ && together % kDirectAlignment == 0) {
    if (write_all(direct_.get(), offset, bytes)) return absl::OkStatus();
    if (errno != EINVAL) return file_.failed("write");
    direct_works_ = false;  // This disk wants more than our alignment; ordinary writes always work.
  }
  if (!write_all(file_.get(), offset, bytes)) return file_.failed("write");
  return absl::OkStatus();
}

absl::Status RealWritableFile::truncate(int64_t size) {
  return ::ftruncate(file_.get(), size) == 0 ? absl::OkStatus() : file_.failed("truncate");
}

absl::Status RealWritableFile::sync() {
  return ::fsync(file_.get()) == 0 ? absl::OkStatus() : file_.failed("sync");
}

absl::Status RealWritableFile::close() {
  if (direct_.get() >= 0) ::close(direct_.release());
  // Linux frees the descriptor even when close() reports an error.
  return ::close(file_.release()) == 0 ? absl::OkStatus() : file_.failed("close");
}

absl::Status RealReadableFile::read_at(int64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::pread(file_.get(), into.data(), into.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_.failed("read");
    if (got == 0) {
      return Corrupt(absl::StrCat(file_.path(), ": ends at byte ", offset, ", ", into.size(),
                                  " more were expected"));
    }
    into = into.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

void RealReadableFile::prefetch(int64_t offset, int64_t size) {
  ::posix_fadvise(file_.get(), offset, size, POSIX_FADV_WILLNEED);
}

RealMappedFile::~RealMappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace evermoe
