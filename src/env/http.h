// HTTP requests: the only door to servers that keep objects. Through libcurl, which also signs them
// (AWS Signature Version 4) and checks certificates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace evermoe {

struct HttpRequest {
  std::string method = "GET";
  // Complete. A query's names are in order and have values ("?a=1&uploads="), and everything in it
  // is percent-encoded: it is signed as it is.
  std::string url;
  std::vector<std::string> headers;  // "name: value"
  std::span<const std::byte> body;   // outlives the call
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// Who signs. Nothing of it is in any error.
struct HttpSigner {
  std::string key;
  std::string secret;
  std::string session_token;  // empty: none
  std::string region;
};

struct HttpOptions {
  HttpSigner signer;  // for the service s3; with an empty key nothing is signed
  absl::Duration connect_deadline = absl::Seconds(10);
  // A connection on which nothing moves for so long is given up.
  absl::Duration silence_deadline = absl::Seconds(30);
  int64_t answer_bytes_max = 64 << 20;
  // Asked about once a second; true ends the request (Cancelled).
  std::function<bool()> is_cancelled = [] { return false; };
};

class HttpClient {
 public:
  // Unsupported if this machine has no libcurl, or an old one.
  static absl::StatusOr<std::unique_ptr<HttpClient>> create(HttpOptions options);
  virtual ~HttpClient() = default;
  // Whatever the server answers is an answer. Internal: it could not be asked, or its answer was
  // cut off; Timeout; NoCapacity for an answer that is too long; Cancelled. Each names the server.
  // One thread at a time.
  virtual absl::StatusOr<HttpAnswer> send(const HttpRequest& request) = 0;
};

}  // namespace evermoe
