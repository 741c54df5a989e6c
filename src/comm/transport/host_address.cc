#include "comm/transport/host_address.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace evermoe {
namespace {

std::string ask_for_machine() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  ::stat("/proc/self/ns/net", &network);
  return absl::StrCat(name.data(), "/", boot, "/", network.st_ino);
}

}  // namespace

const std::string& this_machine() {
  static const std::string machine = ask_for_machine();
  return machine;
}

std::string to_string(const HostAddress& address) {
  return absl::StrCat(address.kind, ":", address.machine, ":", address.detail);
}

absl::StatusOr<HostAddress> parse_address(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 2));
  if (parts.size() != 3 || parts[0].empty() || parts[2].empty()) {
    return InvalidInput(absl::StrCat("\"", text.substr(0, 80), "\" is not a transport address"));
  }
  return HostAddress{parts[0], parts[1], parts[2]};
}

}  // namespace evermoe
