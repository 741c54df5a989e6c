#include "config/config_fuzz_entry.h"

#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "config/job_config.h"

namespace evermoe {
namespace {

std::vector<std::string> split_at_nul(const std::string& bytes) {
  std::vector<std::string> parts(1);
  for (const char c : bytes) {
    if (c == '\0') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

void fuzz_config(const uint8_t* data, size_t size) {
  std::vector<std::string> parts = split_at_nul(std::string(data, data + size));
  const std::string text = parts[0];
  parts.erase(parts.begin());
  const auto config = parse_config(text, "fuzz", "/folder", parts);
  if (!config.ok()) {
    const std::string message(config.status().message());
    CHECK(exit_code(config.status()) == 2) << config.status();
    CHECK(message.find('\n') == std::string::npos) << message;
    return;
  }
  const auto again = parse_config(to_toml(*config), "again", "/other", {});
  CHECK(again.ok()) << again.status() << "\n" << to_toml(*config);
  CHECK(*again == *config) << to_toml(*config) << "\n" << to_toml(*again);
}

}  // namespace evermoe
