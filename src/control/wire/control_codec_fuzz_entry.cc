#include "control/wire/control_codec_fuzz_entry.h"

#include <string>

#include "base/check.h"
#include "control/wire/control_codec.h"

namespace evermoe {

void fuzz_control_codec(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto envelope = decode_envelope(bytes);
  if (envelope.ok()) CHECK(encode(*envelope) == bytes);
}

}  // namespace evermoe
