#include "comm/transport/proven_greeting.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr size_t kSaidBytes = kGreetingBytes + sizeof(Nonce);

// What is hashed: texts of fixed size, one behind the other, the kind of the hash first.
class HashedText {
 public:
  explicit HashedText(uint64_t kind) { add(kind); }
  void add(std::span<const std::byte> bytes) {
    CHECK(size_ + bytes.size() <= bytes_.size());
    std::ranges::copy(bytes, bytes_.begin() + static_cast<ptrdiff_t>(size_));
    size_ += bytes.size();
  }
  void add(uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  std::span<const std::byte> text() const { return std::span(bytes_).first(size_); }

 private:
  std::array<std::byte, 256> bytes_{};
  size_t size_ = 0;
};

constexpr uint64_t kOfGreeting = 0x3147'4d56'45;  // "EVMG1"
constexpr uint64_t kOfPass = 0x3150'4d56'45;

HashedText hashed_greeting(std::span<const std::byte> said, const GreetingReceiver& to) {
  HashedText text(kOfGreeting);
  text.add(said);
  text.add(static_cast<uint64_t>(to.rank.value));
  text.add(to.process);
  text.add(to.purpose);
  return text;
}

void add_greeting(HashedText& text, const ProvenGreeting& greeting) {
  text.add(encode_greeting(greeting.greeting));
  text.add(greeting.nonce);
}

}  // namespace

Nonce new_nonce() {
  Nonce nonce;
  fill_random(nonce);
  return nonce;
}

ProvenGreetingBytes encode_proven_greeting(const JobSecret& secret, const ProvenGreeting& greeting,
                                           const GreetingReceiver& to) {
  ProvenGreetingBytes bytes{};
  const GreetingBytes said = encode_greeting(greeting.greeting);
  auto at = std::ranges::copy(said, bytes.begin()).out;
  at = std::ranges::copy(greeting.nonce, at).out;
  const auto mac = secret.mac(hashed_greeting(std::span(bytes).first(kSaidBytes), to).text());
  std::ranges::copy(mac, at);
  return bytes;
}

absl::StatusOr<ProvenGreeting> decode_proven_greeting(const JobSecret& secret,
                                                      std::span<const std::byte> bytes,
                                                      const GreetingReceiver& to) {
  CHECK(bytes.size() == kProvenGreetingBytes);
  const auto said = bytes.first(kSaidBytes);
  if (!secret.is_mac(hashed_greeting(said, to).text(), bytes.subspan(kSaidBytes)))
    return absl::PermissionDeniedError("a greeting of somebody who does not know the job's secret");
  ProvenGreeting result;
  ASSIGN_OR_RETURN(result.greeting, decode_greeting(bytes.first(kGreetingBytes)));
  std::ranges::copy(bytes.subspan(kGreetingBytes, sizeof(Nonce)), result.nonce.begin());
  return result;
}

Pass pass_between(const JobSecret& secret, const ProvenGreeting& from, const ProvenGreeting& to) {
  HashedText text(kOfPass);
  add_greeting(text, from);
  add_greeting(text, to);
  const JobSecret::Mac mac = secret.mac(text.text());
  Pass pass;
  std::memcpy(&pass.token, mac.data(), sizeof(pass.token));
  std::memcpy(&pass.tag, mac.data() + sizeof(pass.token), sizeof(pass.tag));
  return pass;
}

}  // namespace evermoe
