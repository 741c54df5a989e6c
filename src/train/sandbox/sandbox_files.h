// Files for a process that must not touch any (sandbox.h): every call is a bug of the program
// (CHECK).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "env/files.h"

namespace evermoe {

class SandboxFiles final : public Files {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> create(const std::string& path,
                                                       const CreateOptions&) override {
    refuse(path);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    refuse(path);
  }
  absl::StatusOr<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    refuse(path);
  }
  bool exists(const std::string& path) override { refuse(path); }
  bool is_directory(const std::string& path) override { refuse(path); }
  bool is_symlink(const std::string& path) override { refuse(path); }
  absl::StatusOr<int64_t> file_size(const std::string& path) override { refuse(path); }
  absl::StatusOr<FileIdentity> identity(const std::string& path) override { refuse(path); }
  absl::StatusOr<int64_t> free_bytes(const std::string& path) override { refuse(path); }
  absl::StatusOr<std::vector<std::string>> list(const std::string& path) override { refuse(path); }
  absl::Status create_directories(const std::string& path) override { refuse(path); }
  absl::Status sync_directory(const std::string& path) override { refuse(path); }
  absl::Status rename(const std::string& from, const std::string&) override { refuse(from); }
  absl::Status exchange(const std::string& a, const std::string&) override { refuse(a); }
  absl::Status remove_file(const std::string& path) override { refuse(path); }
  absl::Status remove_directory(const std::string& path) override { refuse(path); }
  absl::Status create_symlink(const std::string&, const std::string& path) override {
    refuse(path);
  }
  absl::StatusOr<std::string> read_symlink(const std::string& path) override { refuse(path); }

 private:
  [[noreturn]] static void refuse(const std::string& path) {
    CHECK(false) << "a sandbox touches " << path;
    __builtin_unreachable();
  }
};

}  // namespace evermoe
