#include "control/launch/workers_file.h"

#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"

namespace evermoe {

absl::Status write_workers_file(Files& files, const std::string& path,
                                const std::map<std::string, pid_t>& workers) {
  const std::string temporary = path + ".tmp";
  const std::string text = nlohmann::json(workers).dump() + "\n";
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.create(temporary, {}));
  RETURN_IF_ERROR(file->append(std::as_bytes(std::span(text))));
  RETURN_IF_ERROR(file->close());
  return files.rename(temporary, path);
}

}  // namespace evermoe
