#include "env/processor_wait.h"

#include <cstdint>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace evermoe {

absl::Duration processor_wait(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/schedstat"));
  int64_t ran = 0, waited = 0;
  if (!(file >> ran >> waited) || waited < 0) return absl::ZeroDuration();
  return absl::Nanoseconds(waited);
}

}  // namespace evermoe
