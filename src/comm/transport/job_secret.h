// What the processes of a job know and nobody else: the key of the hashes by which two of them
// prove to each other that they belong together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace evermoe {

class JobSecret {
 public:
  static constexpr size_t kBytes = 32;
  static constexpr size_t kMacBytes = 32;
  using Mac = std::array<std::byte, kMacBytes>;

  JobSecret() = default;  // none
  // REQUIRES: bytes.size() == kBytes.
  explicit JobSecret(std::string bytes);
  // Of the kernel's random bytes.
  static JobSecret random();

  bool empty() const { return bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

  // HMAC-SHA256. REQUIRES: there is one.
  Mac mac(std::span<const std::byte> text) const;
  // In a time that does not tell where they differ.
  bool is_mac(std::span<const std::byte> text, std::span<const std::byte> mac) const;

 private:
  std::string bytes_;
};

// The kernel's.
void fill_random(std::span<std::byte> into);

}  // namespace evermoe
