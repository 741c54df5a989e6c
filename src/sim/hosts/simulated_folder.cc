#include "sim/hosts/simulated_folder.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::Status SimulatedFolder::none(const std::string& path) {
  return absl::UnimplementedError(absl::StrCat(path, ": not in a simulated folder"));
}

absl::Status SimulatedFolder::written(const std::string& path) {
  return is_refused_() ? NoCapacity(absl::StrCat(path, ": no space left (simulated)"))
                       : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimulatedFolder::list(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& [path, target] : links_) {
    if (parent_directory(path) == directory) names.push_back(base_name(path));
  }
  return names;
}

absl::Status SimulatedFolder::remove_file(const std::string& path) {
  return links_.erase(path) > 0 ? absl::OkStatus() : NotFound(absl::StrCat(path, ": no such file"));
}

absl::Status SimulatedFolder::create_symlink(const std::string& target, const std::string& path) {
  RETURN_IF_ERROR(written(path));
  if (links_.emplace(path, target).second) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path, ": it exists"));
}

absl::StatusOr<std::string> SimulatedFolder::read_symlink(const std::string& path) {
  const auto found = links_.find(path);
  if (found == links_.end()) return NotFound(absl::StrCat(path, ": no such file"));
  return found->second;
}

}  // namespace evermoe
