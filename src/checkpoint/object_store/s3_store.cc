#include "checkpoint/object_store/s3_store.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/error.h"
#include "checkpoint/object_store/s3_answers.h"

namespace evermoe {
namespace {

constexpr int64_t kPartsMax = 10'000;  // of S3

bool is_plain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

// As the signature wants it.
std::string percent_encoded(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (is_plain(c) || c == '~') {
      result += c;
    } else {
      absl::StrAppendFormat(&result, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return result;
}

std::string sha256(std::span<const std::byte> bytes) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  CHECK(::EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                     &size, ::EVP_sha256(), nullptr) == 1)
      << "OpenSSL has no SHA-256";
  return absl::BytesToHexString(digest.substr(0, size));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class S3Store : public ObjectStore {
 public:
  S3Store(std::string url, S3Place place, S3Options options, std::unique_ptr<HttpClient> client)
      : url_(std::move(url)),
        place_(std::move(place)),
        options_(std::move(options)),
        client_(std::move(client)) {}

  const std::string& url() const override { return url_; }

  absl::StatusOr<std::vector<StoredObject>> list(const std::string& prefix) override {
    const std::string what = absl::StrCat("listing ", url_);
    const size_t skipped = key_of("").size();
    std::vector<StoredObject> all;
    std::string next;
    do {
      std::string query;
      if (!next.empty()) query = absl::StrCat("continuation-token=", percent_encoded(next), "&");
      absl::StrAppend(&query, "list-type=2&max-keys=", options_.page_objects,
                      "&prefix=", percent_encoded(key_of(prefix)));
      ASSIGN_OR_RETURN(const HttpAnswer answer, ask("GET", "", query, {}));
      RETURN_IF_ERROR(s3_status("GET", answer, what));
      ASSIGN_OR_RETURN(const ObjectPage page, parse_object_page(answer.body, what));
      for (const StoredObject& object : page.objects) {
        if (!absl::StartsWith(object.name, key_of(prefix)))
          return Corrupt(what + ": an object of the list was not asked for");
        all.push_back({object.name.substr(skipped), object.bytes});
      }
      if (all.size() > kStoredObjectsMax)
        return NoCapacity(absl::StrCat(what, ": more than ", kStoredObjectsMax, " objects"));
      // A server that hands out the same page for ever is refused by the limit, an empty one here.
      if (!page.next.empty() && page.objects.empty())
        return Corrupt(what + ": an empty page of a list that goes on");
      next = page.next;
    } while (!next.empty());
    std::ranges::sort(all, {}, &StoredObject::name);
    return all;
  }

  absl::Status put(const std::string& name, std::span<const std::byte> bytes) override {
    ASSIGN_OR_RETURN(const HttpAnswer answer, ask("PUT", name, "", bytes));
    return s3_status("PUT", answer, of(name));
  }

  absl::Status put_file(const std::string& name, ReadableFile& file) override {
    const int64_t part = std::max(options_.part_bytes, (file.size() + kPartsMax - 1) / kPartsMax);
    if (file.size() <= part) {
      std::vector<std::byte> bytes(static_cast<size_t>(file.size()));
      RETURN_IF_ERROR(file.read_at(0, bytes));
      return put(name, bytes);
    }
    ASSIGN_OR_RETURN(const HttpAnswer begun, ask("POST", name, "uploads=", {}));
    RETURN_IF_ERROR(s3_status("POST", begun, of(name)));
    ASSIGN_OR_RETURN(const std::string id, parse_upload_id(begun.body, of(name)));
    const absl::Status uploaded = put_parts(name, file, part, id);
    // What it has of the parts costs the bucket's owner; that the object appears nobody can wait
    // for any more.
    if (!uploaded.ok()) (void)ask("DELETE", name, "uploadId=" + percent_encoded(id), {});
    return uploaded;
  }

  absl::StatusOr<int64_t> size(const std::string& name) override {
    ASSIGN_OR_RETURN(const HttpAnswer answer, ask("HEAD", name, "", {}));
    RETURN_IF_ERROR(s3_status("HEAD", answer, of(name)));
    int64_t bytes = -1;
    const auto found = answer.headers.find("content-length");
    const bool is_size =
        found != answer.headers.end() && absl::SimpleAtoi(found->second, &bytes) && bytes >= 0;
    if (!is_size) return Corrupt(of(name) + ": the answer has no length");
    return bytes;
  }

  absl::Status read(const std::string& name, int64_t offset, std::span<std::byte> into) override {
    while (!into.empty()) {
      const size_t count = std::min(into.size(), static_cast<size_t>(options_.part_bytes));
      RETURN_IF_ERROR(read_range(name, offset, into.first(count)));
      into = into.subspan(count);
      offset += static_cast<int64_t>(count);
    }
    return absl::OkStatus();
  }

  absl::Status remove(const std::string& name) override {
    ASSIGN_OR_RETURN(const HttpAnswer answer, ask("DELETE", name, "", {}));
    const absl::Status status = s3_status("DELETE", answer, of(name));
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

 private:
  std::string key_of(const std::string& name) const {
    return place_.prefix.empty() ? name : absl::StrCat(place_.prefix, "/", name);
  }
  std::string of(const std::string& name) const { return absl::StrCat(url_, "/", name); }

  // Of the bucket if `name` is empty.
  absl::StatusOr<HttpAnswer> ask(const std::string& method, const std::string& name,
                                 const std::string& query, std::span<const std::byte> body,
                                 std::vector<std::string> headers = {}) {
    std::string url = absl::StrCat(options_.endpoint, "/", place_.bucket);
    if (!name.empty()) absl::StrAppend(&url, "/", key_of(name));
    if (!query.empty()) absl::StrAppend(&url, "?", query);
    headers.push_back("x-amz-content-sha256: " + sha256(body));
    return client_->send({method, url, std::move(headers), body});
  }

  absl::Status put_parts(const std::string& name, ReadableFile& file, int64_t part_bytes,
                         const std::string& id) {
    std::vector<std::byte> buffer(static_cast<size_t>(part_bytes));
    std::vector<std::string> tags;
    for (int64_t at = 0; at < file.size(); at += part_bytes) {
      const auto bytes =
          std::span(buffer).first(static_cast<size_t>(std::min(part_bytes, file.size() - at)));
      RETURN_IF_ERROR(file.read_at(at, bytes));
      const std::string query =
          absl::StrCat("partNumber=", tags.size() + 1, "&uploadId=", percent_encoded(id));
      ASSIGN_OR_RETURN(const HttpAnswer answer, ask("PUT", name, query, bytes));
      RETURN_IF_ERROR(s3_status("PUT", answer, of(name)));
      const auto tag = answer.headers.find("etag");
      if (tag == answer.headers.end()) return Corrupt(of(name) + ": a part has no tag");
      tags.push_back(tag->second);
    }
    const std::string text = complete_upload_text(tags);
    ASSIGN_OR_RETURN(const HttpAnswer answer,
                     ask("POST", name, "uploadId=" + percent_encoded(id),
                         std::as_bytes(std::span(text)), {"content-type: application/xml"}));
    RETURN_IF_ERROR(s3_status("POST", answer, of(name)));
    // The server begins to answer before it knows how it ends.
    const S3Error error = parse_s3_error(answer.body);
    if (error.code.empty()) return absl::OkStatus();
    return Internal(absl::StrCat(of(name), ": ", error.code, ": ", error.message));
  }

  absl::Status read_range(const std::string& name, int64_t offset, std::span<std::byte> into) {
    const int64_t last = offset + static_cast<int64_t>(into.size()) - 1;
    ASSIGN_OR_RETURN(const HttpAnswer answer,
                     ask("GET", name, "", {}, {absl::StrCat("range: bytes=", offset, "-", last)}));
    if (answer.status == 416) return Corrupt(of(name) + ": ends before what is asked for");
    RETURN_IF_ERROR(s3_status("GET", answer, of(name)));
    if (answer.body.size() != into.size()) {
      return Corrupt(
          absl::StrCat(of(name), ": ", answer.body.size(), " bytes came instead of ", into.size()));
    }
    std::memcpy(into.data(), answer.body.data(), into.size());
    return absl::OkStatus();
  }

  const std::string url_;
  const S3Place place_;
  const S3Options options_;
  const std::unique_ptr<HttpClient> client_;
};

}  // namespace

bool is_s3_url(const std::string& text) { return absl::StartsWith(text, kS3Scheme); }

absl::StatusOr<S3Place> parse_s3_url(const std::string& text) {
  const auto refuse = [&] {
    return InvalidInput(absl::StrCat("found ", text, ", allowed: ", kS3UrlHelp));
  };
  if (!is_s3_url(text)) return refuse();
  const std::string path = text.substr(sizeof(kS3Scheme) - 1);
  const size_t slash = std::min(path.find('/'), path.size());
  S3Place place{path.substr(0, slash), path.substr(std::min(slash + 1, path.size()))};
  while (absl::EndsWith(place.prefix, "/")) place.prefix.pop_back();
  const bool is_bucket = place.bucket.size() >= 3 && place.bucket.size() <= 63 &&
                         std::ranges::all_of(place.bucket, is_plain);
  const bool is_prefix =
      place.prefix.size() <= 512 && !absl::StrContains(absl::StrCat("/", place.prefix), "//") &&
      std::ranges::all_of(place.prefix, [](char c) { return is_plain(c) || c == '/'; });
  // The signature is of the path as it is written; a client would shorten these.
  const bool has_dots = absl::StrContains(absl::StrCat("/", place.prefix, "/"), "/./") ||
                        absl::StrContains(absl::StrCat("/", place.prefix, "/"), "/../");
  if (!is_bucket || !is_prefix || has_dots) return refuse();
  return place;
}

absl::StatusOr<S3Options> s3_options() {
  S3Options options;
  HttpSigner& signer = options.http.signer;
  signer.region = variable("AWS_REGION");
  if (signer.region.empty()) signer.region = variable("AWS_DEFAULT_REGION");
  if (signer.region.empty()) signer.region = "us-east-1";
  if (!std::ranges::all_of(signer.region, is_plain))
    return InvalidInput("AWS_REGION: found " + signer.region + ", allowed: letters, digits and -");
  options.endpoint = variable("AWS_ENDPOINT_URL");
  if (options.endpoint.empty())
    options.endpoint = absl::StrCat("https://s3.", signer.region, ".amazonaws.com");
  while (absl::EndsWith(options.endpoint, "/")) options.endpoint.pop_back();
  // Neither in a message nor in a request: what is before the @ may be a secret.
  if (absl::StrContains(options.endpoint, '@')) {
    return InvalidInput(
        "AWS_ENDPOINT_URL: found a user or a password (@), allowed: http://HOST:PORT or "
        "https://HOST; who asks is in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  }
  if (!absl::StartsWith(options.endpoint, "http://") &&
      !absl::StartsWith(options.endpoint, "https://")) {
    return InvalidInput("AWS_ENDPOINT_URL: found " + options.endpoint +
                        ", allowed: http://HOST:PORT or https://HOST");
  }
  signer.key = variable("AWS_ACCESS_KEY_ID");
  signer.secret = variable("AWS_SECRET_ACCESS_KEY");
  signer.session_token = variable("AWS_SESSION_TOKEN");
  for (const auto& [name, value] : {std::pair("AWS_ACCESS_KEY_ID", &signer.key),
                                    std::pair("AWS_SECRET_ACCESS_KEY", &signer.secret)}) {
    if (value->empty())
      return InvalidInput(absl::StrCat(name, ": found nothing, allowed: the key of an S3 store"));
  }
  return options;
}

absl::StatusOr<std::unique_ptr<ObjectStore>> open_s3_store(const std::string& url,
                                                           S3Options options) {
  ASSIGN_OR_RETURN(S3Place place, parse_s3_url(url));
  ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client, HttpClient::create(options.http));
  return std::make_unique<S3Store>(url, std::move(place), std::move(options), std::move(client));
}

absl::StatusOr<std::string> read_object(ObjectStore& store, const std::string& name,
                                        int64_t bytes_max) {
  ASSIGN_OR_RETURN(const int64_t bytes, store.size(name));
  if (bytes > bytes_max) {
    return NoCapacity(absl::StrCat(store.url(), "/", name, ": has ", bytes, " bytes, at most ",
                                   bytes_max, " are allowed"));
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  RETURN_IF_ERROR(store.read(name, 0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace evermoe
