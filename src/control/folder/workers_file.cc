#include "control/folder/workers_file.h"

#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"

namespace evermoe {
namespace {

constexpr int64_t kControllerFileBytesMax = 64 << 10;

absl::Status replace_json(Files& files, const std::string& path, const nlohmann::json& json) {
  const std::string temporary = path + ".tmp";
  const std::string text = json.dump() + "\n";
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.create(temporary, {}));
  RETURN_IF_ERROR(file->append(std::as_bytes(std::span(text))));
  RETURN_IF_ERROR(file->close());
  return files.rename(temporary, path);
}

}  // namespace

absl::Status write_workers_file(Files& files, const std::string& path,
                                const std::map<std::string, pid_t>& workers) {
  return replace_json(files, path, nlohmann::json(workers));
}

absl::Status write_controller_file(Files& files, const std::string& path,
                                   const std::string& address) {
  if (!address.empty()) return replace_json(files, path, {{"address", address}});
  return files.exists(path) ? files.remove_file(path) : absl::OkStatus();
}

absl::StatusOr<std::string> read_controller_file(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(files, path, kControllerFileBytesMax));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("address") && json["address"].is_string())
    return json["address"].get<std::string>();
  return InvalidInput(path + " names no controller");
}

}  // namespace evermoe
