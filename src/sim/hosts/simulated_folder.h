// The output folder of a simulated job, with the links that tell its terms
// (checkpoint/write/folder_term.h) and nothing else: every other call is Unimplemented.
//
// Threads: one at a time, as in a simulated job.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "env/files.h"

namespace evermoe {

class SimulatedFolder final : public Files {
 public:
  // `is_refused`: whether the disk refuses what is to be written now.
  explicit SimulatedFolder(std::function<bool()> is_refused) : is_refused_(std::move(is_refused)) {}

  bool is_symlink(const std::string& path) override { return links_.contains(path); }
  absl::StatusOr<std::vector<std::string>> list(const std::string& directory) override;
  absl::Status create_directories(const std::string& path) override { return written(path); }
  absl::Status sync_directory(const std::string& path) override { return written(path); }
  absl::Status remove_file(const std::string& path) override;
  absl::Status create_symlink(const std::string& target, const std::string& path) override;
  absl::StatusOr<std::string> read_symlink(const std::string& path) override;

  bool exists(const std::string& path) override { return links_.contains(path); }
  bool is_directory(const std::string&) override { return false; }
  absl::StatusOr<std::unique_ptr<WritableFile>> create(const std::string& path,
                                                       const CreateOptions&) override {
    return none(path);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return none(path);
  }
  absl::StatusOr<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    return none(path);
  }
  absl::StatusOr<int64_t> file_size(const std::string& path) override { return none(path); }
  absl::StatusOr<FileIdentity> identity(const std::string& path) override { return none(path); }
  absl::StatusOr<int64_t> free_bytes(const std::string& path) override { return none(path); }
  absl::Status rename(const std::string& from, const std::string&) override { return none(from); }
  absl::Status exchange(const std::string& a, const std::string&) override { return none(a); }
  absl::Status remove_directory(const std::string& path) override { return none(path); }

 private:
  absl::Status written(const std::string& path);
  static absl::Status none(const std::string& path);

  const std::function<bool()> is_refused_;
  std::map<std::string, std::string> links_;
};

}  // namespace evermoe
