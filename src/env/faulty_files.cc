#include "env/faulty_files.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/clock.h"
#include "env/named_descriptor.h"

namespace evermoe {
namespace {

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

int error_of(FileFault fault) {
  switch (fault) {
    case FileFault::kNoSpace: return ENOSPC;
    case FileFault::kQuota: return EDQUOT;
    case FileFault::kStale: return ESTALE;
    default: return EIO;
  }
}

class FaultyWritableFile : public WritableFile {
 public:
  FaultyWritableFile(FaultyFiles& owner, std::unique_ptr<WritableFile> base, std::string path)
      : owner_(owner), base_(std::move(base)), path_(std::move(path)) {}

  absl::Status append(std::span<const std::byte> bytes) override {
    return owner_.operate(
        path_, [&] { return base_->append(bytes); },
        [&] { (void)base_->append(bytes.first(bytes.size() / 2)); });
  }
  absl::Status write_at(int64_t offset, std::span<const std::byte> bytes) override {
    return owner_.operate(
        path_, [&] { return base_->write_at(offset, bytes); },
        [&] { (void)base_->write_at(offset, bytes.first(bytes.size() / 2)); });
  }
  absl::Status truncate(int64_t size) override {
    return owner_.operate(path_, [&] { return base_->truncate(size); });
  }
  absl::Status sync() override {
    return owner_.operate(path_, [&] { return base_->sync(); });
  }
  absl::Status close() override {
    return owner_.operate(path_, [&] { return base_->close(); });
  }

 private:
  FaultyFiles& owner_;
  std::unique_ptr<WritableFile> base_;
  std::string path_;
};

class FaultyReadableFile : public ReadableFile {
 public:
  FaultyReadableFile(FaultyFiles& owner, std::unique_ptr<ReadableFile> base, std::string path)
      : owner_(owner), base_(std::move(base)), path_(std::move(path)) {}

  int64_t size() const override { return base_->size(); }
  absl::Status read_at(int64_t offset, std::span<std::byte> into) override {
    return owner_.operate(path_, [&] { return base_->read_at(offset, into); });
  }
  void prefetch(int64_t offset, int64_t size) override { base_->prefetch(offset, size); }

 private:
  FaultyFiles& owner_;
  std::unique_ptr<ReadableFile> base_;
  std::string path_;
};

// An operation whose result is more than a Status.
template <typename Value>
absl::StatusOr<Value> operate_value(FaultyFiles& owner, const std::string& path,
                                    const std::function<absl::StatusOr<Value>()>& act) {
  absl::StatusOr<Value> result = absl::UnknownError("not run");
  const absl::Status status = owner.operate(path, [&] {
    result = act();
    return result.status();
  });
  if (!status.ok()) return status;
  return result;
}

}  // namespace

absl::Status FaultyFiles::operate(const std::string& path, const std::function<absl::Status()>& act,
                                  const std::function<void()>& half) {
  const int64_t number = count_.fetch_add(1);
  real_clock().sleep_until(real_clock().now() + plan_.delay);
  const bool injected = number >= plan_.first && number <= plan_.last;
  if (!injected || plan_.fault == FileFault::kNone) return act();
  faults_.fetch_add(1);
  if (plan_.fault == FileFault::kKill) die();
  if (plan_.fault == FileFault::kTear) {
    half ? half() : (void)act();
    die();
  }
  if (half) half();
  const std::string doing = absl::StrCat("do file operation ", number, ", an injected fault");
  return errno_status(error_of(plan_.fault), path, doing.c_str());
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFiles::create(const std::string& path,
                                                                  const CreateOptions& options) {
  std::unique_ptr<WritableFile> file;
  RETURN_IF_ERROR(operate(path, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(file, base_.create(path, options));
    return absl::OkStatus();
  }));
  return std::make_unique<FaultyWritableFile>(*this, std::move(file), path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultyFiles::open(const std::string& path) {
  std::unique_ptr<ReadableFile> file;
  RETURN_IF_ERROR(operate(path, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(file, base_.open(path));
    return absl::OkStatus();
  }));
  return std::make_unique<FaultyReadableFile>(*this, std::move(file), path);
}

absl::StatusOr<std::unique_ptr<MappedFile>> FaultyFiles::map(const std::string& path) {
  return operate_value<std::unique_ptr<MappedFile>>(*this, path, [&] { return base_.map(path); });
}

absl::StatusOr<int64_t> FaultyFiles::file_size(const std::string& path) {
  return operate_value<int64_t>(*this, path, [&] { return base_.file_size(path); });
}

absl::StatusOr<FileIdentity> FaultyFiles::identity(const std::string& path) {
  return operate_value<FileIdentity>(*this, path, [&] { return base_.identity(path); });
}

absl::StatusOr<int64_t> FaultyFiles::free_bytes(const std::string& path) {
  return operate_value<int64_t>(*this, path, [&] { return base_.free_bytes(path); });
}

absl::StatusOr<std::vector<std::string>> FaultyFiles::list(const std::string& directory) {
  return operate_value<std::vector<std::string>>(*this, directory,
                                                 [&] { return base_.list(directory); });
}

absl::Status FaultyFiles::create_directories(const std::string& path) {
  return operate(path, [&] { return base_.create_directories(path); });
}
absl::Status FaultyFiles::sync_directory(const std::string& path) {
  return operate(path, [&] { return base_.sync_directory(path); });
}
absl::Status FaultyFiles::rename(const std::string& from, const std::string& to) {
  return operate(from, [&] { return base_.rename(from, to); });
}
absl::Status FaultyFiles::exchange(const std::string& a, const std::string& b) {
  if (plan_.no_exchange) return Unsupported(absl::StrCat(a, ": cannot exchange names here"));
  return operate(a, [&] { return base_.exchange(a, b); });
}
absl::Status FaultyFiles::remove_file(const std::string& path) {
  return operate(path, [&] { return base_.remove_file(path); });
}
absl::Status FaultyFiles::remove_directory(const std::string& path) {
  return operate(path, [&] { return base_.remove_directory(path); });
}
absl::Status FaultyFiles::create_symlink(const std::string& target, const std::string& path) {
  return operate(path, [&] { return base_.create_symlink(target, path); });
}
absl::StatusOr<std::string> FaultyFiles::read_symlink(const std::string& path) {
  return operate_value<std::string>(*this, path, [&] { return base_.read_symlink(path); });
}

}  // namespace evermoe
