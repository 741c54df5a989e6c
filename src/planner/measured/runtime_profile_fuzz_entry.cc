#include "planner/measured/runtime_profile_fuzz_entry.h"

#include <string>

#include "base/check.h"
#include "base/error.h"
#include "planner/measured/runtime_profile.h"

namespace evermoe {

void fuzz_runtime_profile(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto profile = parse_runtime_profile(text, "fuzz");
  if (!profile.ok()) {
    const std::string message(profile.status().message());
    CHECK(exit_code(profile.status()) == 2) << profile.status();
    CHECK(message.find('\n') == std::string::npos) << message;
    return;
  }
  const auto again = parse_runtime_profile(to_toml(*profile), "again");
  CHECK(again.ok()) << again.status() << "\n" << to_toml(*profile);
  CHECK(*again == *profile) << to_toml(*profile) << "\n" << to_toml(*again);
}

}  // namespace evermoe
