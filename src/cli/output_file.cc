#include "cli/output_file.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::Status check_output_file(Files& files, const std::string& option, const std::string& path) {
  const std::string folder = parent_directory(path);
  if (files.is_directory(folder) && !files.is_directory(path)) return absl::OkStatus();
  return InvalidInput(
      absl::StrCat(option, ": found \"", path, "\", allowed: a file in a folder that exists"));
}

}  // namespace evermoe
