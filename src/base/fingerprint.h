// XXH3-128 fingerprints of bytes: every snapshot, file and digest carries one.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace evermoe {

struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;
  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
};

Fingerprint fingerprint(std::span<const std::byte> bytes);

// 32 lower-case hexadecimal digits, high half first.
std::string to_hex(const Fingerprint& value);
std::optional<Fingerprint> fingerprint_from_hex(const std::string& digits);

// Fingerprint of a sequence of pieces: equal to fingerprint() of their concatenation.
class FingerprintStream {
 public:
  FingerprintStream();
  ~FingerprintStream();
  FingerprintStream(const FingerprintStream&) = delete;
  FingerprintStream& operator=(const FingerprintStream&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(const std::string& text);
  Fingerprint finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evermoe
