#include "control/agent/processes/worker_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/crash_trace.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Last words longer than this are cut at their beginning.
constexpr int64_t kTailBytesMax = (8 << 10) + kTraceBytesMax;

int64_t size_of(int fd) {
  struct stat state = {};
  return ::fstat(fd, &state) == 0 ? state.st_size : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerLog>> WorkerLog::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return Internal(absl::StrCat(path, ": ", std::strerror(errno)));
  return std::unique_ptr<WorkerLog>(new WorkerLog(path, fd, size_of(fd)));
}

WorkerLog::~WorkerLog() { ::close(fd_); }

std::vector<std::string> WorkerLog::last_lines(size_t lines_max) const {
  const int64_t end = size_of(fd_);
  const int64_t from = std::max(begin_, end - kTailBytesMax);
  if (end <= from) return {};
  std::string text(static_cast<size_t>(end - from), '\0');
  const ssize_t got = ::pread(fd_, text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  lines.erase(std::find_if(lines.begin(), lines.end(),
                           [](const std::string& line) { return line.starts_with(kTraceBegin); }),
              lines.end());
  if (lines.size() > lines_max)
    lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(lines_max));
  return lines;
}

}  // namespace evermoe
