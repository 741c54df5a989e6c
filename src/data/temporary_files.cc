#include "data/temporary_files.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace evermoe {
namespace {

constexpr char kMark[] = ".tmp-";

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

// The process of this machine that has written a file of that name; nullopt if none has.
std::optional<pid_t> writer_of(const std::string& name, const std::string& host) {
  const size_t mark = name.rfind(kMark);
  const size_t number = name.rfind('-');
  if (mark == std::string::npos || number < mark + sizeof(kMark)) return std::nullopt;
  const size_t pid = name.rfind('-', number - 1);
  const size_t begin = mark + sizeof(kMark) - 1;
  int32_t value = 0, count = 0;
  if (pid < begin || name.substr(begin, pid - begin) != host) return std::nullopt;
  if (!absl::SimpleAtoi(name.substr(pid + 1, number - pid - 1), &value) ||
      !absl::SimpleAtoi(name.substr(number + 1), &count) || value <= 0)
    return std::nullopt;
  return value;
}

bool lives(pid_t process) { return ::kill(process, 0) == 0 || errno != ESRCH; }

}  // namespace

std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  return absl::StrCat(path, kMark, host_name(), "-", ::getpid(), "-", count++);
}

void remove_leftovers(Files& files, const std::string& directory) {
  const auto names = files.list(directory);
  if (!names.ok()) return;
  const std::string host = host_name();
  for (const std::string& name : *names) {
    const std::optional<pid_t> writer = writer_of(name, host);
    if (!writer || lives(*writer)) continue;
    const absl::Status removed = files.remove_file(join_path(directory, name));
    if (!removed.ok() && !absl::IsNotFound(removed))
      log_warning(absl::StrCat("a leftover stays: ", removed.message()));
  }
}

}  // namespace evermoe
