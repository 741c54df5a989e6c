#include "faults/injected_faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

absl::StatusOr<std::set<int>> read_injected_faults(const std::string& path) {
  std::set<int> injected;
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  all.resize(all.rfind('\n') == std::string::npos ? 0 : all.rfind('\n') + 1);
  std::stringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    int index = 0;
    if (!absl::SimpleAtoi(line, &index) || index < 0) {
      return InvalidInput(
          absl::StrCat(path, ": found '", line.substr(0, 40), "', allowed: numbers of faults"));
    }
    injected.insert(index);
  }
  return injected;
}

absl::Status add_injected_fault(const std::string& path, int index) {
  // One write that is appended as a whole, also beside those of other processes.
  const std::string line = absl::StrCat(index, "\n");
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const bool written = fd >= 0 &&
                       ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
                       ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return written ? absl::OkStatus() : Internal(absl::StrCat(path, ": ", std::strerror(error)));
}

}  // namespace evermoe
