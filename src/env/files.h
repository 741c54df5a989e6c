// Files: the only door to the file system. A fault of the disk is a wrapper around it
// (env/faulty_files.h).
//
// Every error names the path. Codes: NotFound where a file or folder is missing; NoCapacity for a
// full disk, quota or file table; PermissionDenied for what may not be read or written; Corrupt for
// a file that ends before the bytes asked for; Internal for everything else the operating system
// refuses. No call retries or waits; all block for as long as the disk does.
//
// Nothing is durable before sync() of the file, and its name not before sync_directory() of the
// folder that holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evermoe {

// What addresses, offsets and lengths must be multiples of for a write to bypass the page cache.
inline constexpr int64_t kDirectAlignment = 4096;

struct CreateOptions {
  // Ask for writes that bypass the page cache. Where the file system cannot, they are ordinary
  // ones. write_at() with anything not aligned to kDirectAlignment is an ordinary write either way.
  bool direct = false;
  // Reserve this much space first, so that a full disk is found before anything is written and
  // parallel writers do not extend the file. The file then has this size until truncate().
  int64_t reserve_bytes = 0;
};

// A file being written. append() is for one thread at a time; write_at() may be called from
// several threads at once for ranges that do not overlap.
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes, and drops the error
  virtual absl::Status append(std::span<const std::byte> bytes) = 0;
  virtual absl::Status write_at(int64_t offset, std::span<const std::byte> bytes) = 0;
  virtual absl::Status truncate(int64_t size) = 0;
  virtual absl::Status sync() = 0;   // data and size are on the disk when it returns
  virtual absl::Status close() = 0;  // call once, last
};

// A file being read. Any thread.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual int64_t size() const = 0;  // when it was opened
  // Fills `into` completely or fails.
  virtual absl::Status read_at(int64_t offset, std::span<std::byte> into) = 0;
  // A hint: this range will be read soon.
  virtual void prefetch(int64_t offset, int64_t size) = 0;
};

// Tells a file from what was at its path before, or what is after, without reading it: a file that
// is written to gets new times, one that takes its place another inode. Coarse clocks may miss a
// change within milliseconds of the look.
struct FileIdentity {
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // of the content, since 1970
  int64_t changed_ns = 0;   // of content or inode: nobody can set it back
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A whole file as read-only memory. Truncating a mapped file makes its readers die of SIGBUS.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

// Any thread.
class Files {
 public:
  virtual ~Files() = default;

  // An existing file is emptied first.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> create(const std::string& path,
                                                               const CreateOptions& options) = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<MappedFile>> map(const std::string& path) = 0;

  // Follow symbolic links; false also where it cannot be known.
  virtual bool exists(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  // Does not follow: whether the name itself is a symbolic link.
  virtual bool is_symlink(const std::string& path) = 0;
  virtual absl::StatusOr<int64_t> file_size(const std::string& path) = 0;
  virtual absl::StatusOr<FileIdentity> identity(const std::string& path) = 0;
  // What an unprivileged process may still write to the file system that holds `path`.
  virtual absl::StatusOr<int64_t> free_bytes(const std::string& path) = 0;
  // Names in a folder, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> list(const std::string& directory) = 0;

  // With all missing parents; an existing folder is ok.
  virtual absl::Status create_directories(const std::string& path) = 0;
  virtual absl::Status sync_directory(const std::string& path) = 0;
  // Atomic. Replaces a file or an empty folder at `to`; never merges folders.
  virtual absl::Status rename(const std::string& from, const std::string& to) = 0;
  // Swaps two existing names atomically. Unsupported where the file system has no such call.
  virtual absl::Status exchange(const std::string& a, const std::string& b) = 0;
  // A file or a symbolic link, never a folder.
  virtual absl::Status remove_file(const std::string& path) = 0;
  // An empty folder.
  virtual absl::Status remove_directory(const std::string& path) = 0;

  virtual absl::Status create_symlink(const std::string& target, const std::string& path) = 0;
  virtual absl::StatusOr<std::string> read_symlink(const std::string& path) = 0;
};

// The operating system's files. Lives for ever.
Files& real_files();

// Made of the calls above, so that a wrapper sees every step.

// "a/b" from "a" and "b"; an empty folder means the current one.
std::string join_path(const std::string& directory, const std::string& name);
// Folder part of a path: "." where there is none.
std::string parent_directory(const std::string& path);
// Last part of a path, trailing slashes ignored.
std::string base_name(const std::string& path);

// The whole file as text. NoCapacity if it is larger than `bytes_max`.
absl::StatusOr<std::string> read_file(Files& files, const std::string& path, int64_t bytes_max);
// Creates the file with this content and syncs it. The caller syncs the folder.
absl::Status write_file_synced(Files& files, const std::string& path, const std::string& content);
// Replaces `path` so that a reader sees the old or the new content, also after a crash: temporary
// name, sync, rename, sync of the folder.
absl::Status replace_file(Files& files, const std::string& path, const std::string& content);
// Points `path` to `target` by one rename; the folder is not synced.
absl::Status replace_symlink(Files& files, const std::string& target, const std::string& path);
// A file, link or folder with all that is in it, without following links. A missing one is ok.
absl::Status remove_tree(Files& files, const std::string& path);

}  // namespace evermoe
