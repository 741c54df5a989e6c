// What a worker writes to its standard error: appended to a file over all attempts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace evermoe {

class WorkerLog {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerLog>> open(const std::string& path);
  ~WorkerLog();
  WorkerLog(const WorkerLog&) = delete;
  WorkerLog& operator=(const WorkerLog&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  // The last lines written since open(), oldest first, at most `lines_max`, without the trace of a
  // crash: what was said before it tells more in few words. None on any error.
  std::vector<std::string> last_lines(size_t lines_max) const;

 private:
  WorkerLog(std::string path, int fd, int64_t begin)
      : path_(std::move(path)), fd_(fd), begin_(begin) {}
  const std::string path_;
  const int fd_;
  const int64_t begin_;  // size when it was opened
};

}  // namespace evermoe
