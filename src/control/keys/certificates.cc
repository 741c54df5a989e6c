#include "control/keys/certificates.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr long kSecondsBefore = 24 * 60 * 60;
constexpr int kDaysAfter = 20 * 365;
constexpr long kVersion3 = 2;
constexpr size_t kSerialBytes = 16;

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* it) const {
    free(it);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using Number = std::unique_ptr<BIGNUM, Freed<BN_free>>;

absl::Status openssl_error(const char* what) {
  std::array<char, 256> why{};
  ERR_error_string_n(ERR_get_error(), why.data(), why.size());
  ERR_clear_error();
  return Internal(absl::StrCat(what, ": ", why.data()));
}

struct Use {
  int extension;
  const char* value;
};

bool add(X509* certificate, X509* issuer, const Use& use) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, use.extension, use.value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_serial(X509* certificate) {
  std::array<std::byte, kSerialBytes> bytes{};
  fill_random(bytes);
  bytes[0] &= std::byte{0x7f};
  const Number number(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                                static_cast<int>(bytes.size()), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_time(X509* certificate) {
  return X509_gmtime_adj(X509_getm_notBefore(certificate), -kSecondsBefore) != nullptr &&
         X509_time_adj_ex(X509_getm_notAfter(certificate), kDaysAfter, 0, nullptr) != nullptr;
}

// The name of `issuer`, which may be the certificate itself, must be set.
bool set_name(X509* certificate, const std::string& name) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                    0) == 1;
}

absl::StatusOr<Certificate> certify(const std::string& name, EVP_PKEY* key, X509* issuer,
                                    EVP_PKEY* issuer_key, const std::vector<Use>& uses) {
  Certificate made(X509_new());
  if (made == nullptr) return openssl_error("a certificate");
  X509* const signer = issuer != nullptr ? issuer : made.get();
  bool is_ok = X509_set_version(made.get(), kVersion3) == 1 && set_serial(made.get()) &&
               set_time(made.get()) && set_name(made.get(), name) &&
               X509_set_issuer_name(made.get(), X509_get_subject_name(signer)) == 1 &&
               X509_set_pubkey(made.get(), key) == 1;
  for (const Use& use : uses) is_ok = is_ok && add(made.get(), signer, use);
  if (!is_ok || X509_sign(made.get(), issuer_key, EVP_sha256()) == 0)
    return openssl_error("a certificate");
  return made;
}

std::string text_of(BIO* bio) {
  char* at = nullptr;
  const long size = BIO_get_mem_data(bio, &at);
  return std::string(at, static_cast<size_t>(size));
}

absl::StatusOr<std::string> to_pem(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1)
    return openssl_error("a certificate");
  return text_of(bio.get());
}

absl::StatusOr<std::string> to_pem(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr ||
      PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return openssl_error("a private key");
  return text_of(bio.get());
}

Bio bio_of(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Certificate certificate_in(const std::string& pem) {
  return Certificate(PEM_read_bio_X509(bio_of(pem).get(), nullptr, nullptr, nullptr));
}

// No password is asked for.
int no_password(char*, int, int, void*) { return 0; }

Key key_in(const std::string& pem) {
  return Key(PEM_read_bio_PrivateKey(bio_of(pem).get(), nullptr, no_password, nullptr));
}

absl::Status check_time(X509* certificate, const char* name) {
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) >= 0) {
    return InvalidInput(
        absl::StrCat(name, " is not valid yet: is the clock of this machine right?"));
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0)
    return InvalidInput(absl::StrCat(name, " is valid no more: make new keys: evermoe keys new"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobKeys> make_keys() {
  const Key authority_key(EVP_EC_gen("P-256"));
  const Key key(EVP_EC_gen("P-256"));
  if (authority_key == nullptr || key == nullptr) return openssl_error("a key");
  // Authorities of two jobs have two names, so that an error tells which of the two is wrong.
  std::array<std::byte, 8> random{};
  fill_random(random);
  const std::string mark =
      absl::BytesToHexString({reinterpret_cast<const char*>(random.data()), random.size()});
  ASSIGN_OR_RETURN(const Certificate authority,
                   certify(absl::StrCat("evermoe authority of one job ", mark), authority_key.get(),
                           nullptr, authority_key.get(),
                           {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                            {NID_key_usage, "critical,keyCertSign"},
                            {NID_subject_key_identifier, "hash"}}));
  ASSIGN_OR_RETURN(const Certificate certificate,
                   certify(kJobName, key.get(), authority.get(), authority_key.get(),
                           {{NID_basic_constraints, "critical,CA:FALSE"},
                            {NID_key_usage, "critical,digitalSignature"},
                            {NID_ext_key_usage, "serverAuth,clientAuth"},
                            {NID_subject_alt_name, "DNS:evermoe-job"}}));
  JobKeys keys;
  ASSIGN_OR_RETURN(keys.authority, to_pem(authority.get()));
  ASSIGN_OR_RETURN(keys.certificate, to_pem(certificate.get()));
  ASSIGN_OR_RETURN(keys.private_key, to_pem(key.get()));
  keys.secret = JobSecret::random();
  return keys;
}

absl::Status check_certificates(const JobKeys& keys) {
  const Certificate authority = certificate_in(keys.authority);
  const Certificate certificate = certificate_in(keys.certificate);
  const Key key = key_in(keys.private_key);
  absl::Status status;
  if (authority == nullptr) {
    status = InvalidInput("authority.pem is no certificate");
  } else if (certificate == nullptr) {
    status = InvalidInput("certificate.pem is no certificate");
  } else if (key == nullptr) {
    status = InvalidInput("key.pem is no private key");
  } else if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    status = InvalidInput("key.pem is not the key of certificate.pem");
  } else if (X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) != 1) {
    status = InvalidInput("certificate.pem is not of the authority in authority.pem");
  } else {
    status = check_time(authority.get(), "authority.pem");
    if (status.ok()) status = check_time(certificate.get(), "certificate.pem");
  }
  ERR_clear_error();
  return status;
}

}  // namespace evermoe
