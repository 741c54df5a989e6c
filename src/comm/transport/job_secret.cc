#include "comm/transport/job_secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace evermoe {

JobSecret::JobSecret(std::string bytes) : bytes_(std::move(bytes)) {
  CHECK(bytes_.size() == kBytes) << bytes_.size() << " bytes are no secret of a job";
}

JobSecret JobSecret::random() {
  std::string bytes(kBytes, '\0');
  fill_random(std::as_writable_bytes(std::span(bytes)));
  return JobSecret(std::move(bytes));
}

JobSecret::Mac JobSecret::mac(std::span<const std::byte> text) const {
  CHECK(!empty()) << "no secret";
  Mac result{};
  unsigned int size = 0;
  CHECK(::HMAC(::EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
               reinterpret_cast<const unsigned char*>(text.data()), text.size(),
               reinterpret_cast<unsigned char*>(result.data()), &size) != nullptr &&
        size == result.size())
      << "OpenSSL has no HMAC-SHA256";
  return result;
}

bool JobSecret::is_mac(std::span<const std::byte> text, std::span<const std::byte> mac) const {
  const Mac right = this->mac(text);
  return mac.size() == right.size() && ::CRYPTO_memcmp(mac.data(), right.data(), mac.size()) == 0;
}

void fill_random(std::span<std::byte> into) {
  for (size_t filled = 0; filled < into.size();) {
    const ssize_t got = ::getrandom(into.data() + filled, into.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK(got > 0) << "the kernel has no random bytes";
    filled += static_cast<size_t>(got);
  }
}

}  // namespace evermoe
