#include "base/fingerprint.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace evermoe {

Fingerprint fingerprint(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string to_hex(const Fingerprint& value) {
  return absl::StrFormat("%016x%016x", value.high, value.low);
}

std::optional<Fingerprint> fingerprint_from_hex(const std::string& digits) {
  if (digits.size() != 32) return std::nullopt;
  uint64_t halves[2] = {0, 0};
  for (size_t i = 0; i < 32; ++i) {
    const char c = digits[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    halves[i / 16] = halves[i / 16] << 4 | static_cast<uint64_t>(digit);
  }
  return Fingerprint{halves[0], halves[1]};
}

struct FingerprintStream::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

FingerprintStream::FingerprintStream() : state_(std::make_unique<State>()) {
  CHECK(state_->xxh != nullptr);
  XXH3_128bits_reset(state_->xxh);
}
FingerprintStream::~FingerprintStream() = default;

void FingerprintStream::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void FingerprintStream::update(const std::string& text) {
  update(std::as_bytes(std::span(text.data(), text.size())));
}

Fingerprint FingerprintStream::finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace evermoe
