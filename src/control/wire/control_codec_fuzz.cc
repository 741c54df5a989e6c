#include "control/wire/control_codec_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_control_codec(data, size);
  return 0;
}
