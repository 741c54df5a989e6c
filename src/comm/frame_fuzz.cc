// libFuzzer: whatever decode_frame() accepts, encode_frame() writes again in the same bytes.
#include "comm/frame.h"

#include <algorithm>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size != evermoe::kFrameHeaderBytes) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = evermoe::decode_frame(bytes);
  if (header.ok()) CHECK(std::ranges::equal(evermoe::encode_frame(*header), bytes));
  return 0;
}
