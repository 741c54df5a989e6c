// Files that fail on purpose: counts every operation and does something bad at a chosen one.
//
// Operations are numbered from 0 in the order in which they arrive, over all threads: every virtual
// call of Files and of the files it hands out, close() included. Hints (prefetch) and questions
// that cannot fail (exists, is_directory, is_symlink, size) do not count.
#pragma once

#include <atomic>
#include <functional>
#include <limits>

#include "absl/time/time.h"
#include "env/files.h"

namespace evermoe {

enum class FileFault {
  kNone,
  kKill,  // SIGKILL to this process instead of the operation
  kTear,  // a write stores only its first half, any other operation is done; then SIGKILL
  // The operation fails as the system would say it; a write may have stored its first half.
  kNoSpace,  // ENOSPC: NoCapacity
  kQuota,    // EDQUOT: NoCapacity
  kStale,    // ESTALE, of a network file system: Internal
  kIoError,  // EIO: Internal
};

struct FileFaultPlan {
  FileFault fault = FileFault::kNone;
  // Operations [first, last] are injected. Errors only: a disk that stays full has last = max.
  int64_t first = 0;
  int64_t last = std::numeric_limits<int64_t>::max();
  bool no_exchange = false;  // besides: the file system cannot swap two names
  absl::Duration delay;      // besides: every operation takes so much longer
};

class FaultyFiles : public Files {
 public:
  FaultyFiles(Files& base, FileFaultPlan plan) : base_(base), plan_(plan) {}

  int64_t operation_count() const { return count_.load(); }
  int64_t fault_count() const { return faults_.load(); }

  absl::StatusOr<std::unique_ptr<WritableFile>> create(const std::string& path,
                                                       const CreateOptions& options) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<MappedFile>> map(const std::string& path) override;
  bool exists(const std::string& path) override { return base_.exists(path); }
  bool is_directory(const std::string& path) override { return base_.is_directory(path); }
  bool is_symlink(const std::string& path) override { return base_.is_symlink(path); }
  absl::StatusOr<int64_t> file_size(const std::string& path) override;
  absl::StatusOr<FileIdentity> identity(const std::string& path) override;
  absl::StatusOr<int64_t> free_bytes(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> list(const std::string& directory) override;
  absl::Status create_directories(const std::string& path) override;
  absl::Status sync_directory(const std::string& path) override;
  absl::Status rename(const std::string& from, const std::string& to) override;
  absl::Status exchange(const std::string& a, const std::string& b) override;
  absl::Status remove_file(const std::string& path) override;
  absl::Status remove_directory(const std::string& path) override;
  absl::Status create_symlink(const std::string& target, const std::string& path) override;
  absl::StatusOr<std::string> read_symlink(const std::string& path) override;

  // One counted operation: does `act`, or what the plan says instead. `half` does half of it, for
  // operations that can be torn. For the files handed out.
  absl::Status operate(const std::string& path, const std::function<absl::Status()>& act,
                       const std::function<void()>& half = nullptr);

 private:
  Files& base_;
  const FileFaultPlan plan_;
  std::atomic<int64_t> count_{0};
  std::atomic<int64_t> faults_{0};
};

}  // namespace evermoe
