#include "faults/fault_script_fuzz_entry.h"

#include <string>

#include "base/check.h"
#include "base/error.h"
#include "faults/fault_script.h"

namespace evermoe {

void fuzz_fault_script(const uint8_t* data, size_t size) {
  const FaultLimits limits{.lanes = {2, 1, 4}, .nodes = 3};
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto script = parse_fault_script(text, "fuzz", limits);
  if (!script.ok()) {
    const std::string message(script.status().message());
    CHECK(exit_code(script.status()) == 2) << script.status();
    CHECK(message.find('\n') == std::string::npos) << message;
    return;
  }
  const auto again = parse_fault_script(to_toml(*script), "again", limits);
  CHECK(again.ok()) << again.status() << "\n" << to_toml(*script);
  CHECK(*again == *script) << to_toml(*script) << "\n" << to_toml(*again);
  for (const Fault& fault : script->faults) {
    CHECK(to_string(fault).find('\n') == std::string::npos) << to_string(fault);
  }
}

}  // namespace evermoe
