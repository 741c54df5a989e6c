#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/files.h"

namespace evermoe {

std::string join_path(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : absl::StrCat(directory, "/", name);
}

std::string parent_directory(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const size_t slash = path.rfind('/', end);
  if (slash == std::string::npos) return ".";
  const size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

std::string base_name(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return "";
  const size_t slash = path.rfind('/', end);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
}

absl::StatusOr<std::string> read_file(Files& files, const std::string& path, int64_t bytes_max) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.open(path));
  if (file->size() > bytes_max) {
    return NoCapacity(
        absl::StrCat(path, ": has ", file->size(), " bytes, the limit is ", bytes_max));
  }
  std::string content(static_cast<size_t>(file->size()), '\0');
  RETURN_IF_ERROR(file->read_at(0, std::as_writable_bytes(std::span(content))));
  return content;
}

absl::Status write_file_synced(Files& files, const std::string& path, const std::string& content) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.create(path, {}));
  RETURN_IF_ERROR(file->append(std::as_bytes(std::span(content))));
  RETURN_IF_ERROR(file->sync());
  return file->close();
}

absl::Status replace_file(Files& files, const std::string& path, const std::string& content) {
  const std::string temporary = path + ".tmp";
  RETURN_IF_ERROR(write_file_synced(files, temporary, content));
  RETURN_IF_ERROR(files.rename(temporary, path));
  return files.sync_directory(parent_directory(path));
}

absl::Status replace_symlink(Files& files, const std::string& target, const std::string& path) {
  const std::string temporary = path + ".tmp";
  const absl::Status removed = files.remove_file(temporary);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  RETURN_IF_ERROR(files.create_symlink(target, temporary));
  return files.rename(temporary, path);
}

absl::Status remove_tree(Files& files, const std::string& path) {
  if (files.is_symlink(path) || !files.is_directory(path)) {
    const absl::Status removed = files.remove_file(path);
    return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(path));
  for (const std::string& name : names) RETURN_IF_ERROR(remove_tree(files, join_path(path, name)));
  return files.remove_directory(path);
}

}  // namespace evermoe
