#include "env/process_memory.h"

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace evermoe {

int64_t process_memory(pid_t pid) {
  constexpr char kName[] = "RssAnon:";
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    int64_t kilobytes = 0;
    if (!absl::StartsWith(line, kName)) continue;
    if (std::istringstream(line.substr(sizeof(kName) - 1)) >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace evermoe
