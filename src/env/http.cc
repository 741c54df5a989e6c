#include "env/http.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// libcurl and what it needs take 4 MB of a process, and most have no use for it: agents, and hosts
// of jobs without an object store. So it is loaded with the first client.
struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

constexpr char kCurlHelp[] = "; allowed: libcurl 7.85 or newer, as libcurl.so.4";

template <typename Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) missing = name;
}

// Whatever is not in every version.
bool is_new_enough(const Curl& curl) {
  CURL* const handle = curl.easy_init();
  const bool is_new =
      handle != nullptr &&
      curl.easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
      curl.easy_setopt(handle, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3") == CURLE_OK;
  curl.easy_cleanup(handle);
  return is_new;
}

absl::StatusOr<Curl> load_curl() {
  void* const library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Unsupported(absl::StrCat("no requests to servers: ", ::dlerror(), kCurlHelp));
  Curl curl;
  std::string missing;
  find(library, "curl_global_init", curl.global_init, missing);
  find(library, "curl_easy_init", curl.easy_init, missing);
  find(library, "curl_easy_cleanup", curl.easy_cleanup, missing);
  find(library, "curl_easy_reset", curl.easy_reset, missing);
  find(library, "curl_easy_setopt", curl.easy_setopt, missing);
  find(library, "curl_easy_perform", curl.easy_perform, missing);
  find(library, "curl_easy_getinfo", curl.easy_getinfo, missing);
  find(library, "curl_easy_strerror", curl.easy_strerror, missing);
  find(library, "curl_slist_append", curl.slist_append, missing);
  find(library, "curl_slist_free_all", curl.slist_free_all, missing);
  if (!missing.empty())
    return Unsupported(
        absl::StrCat("no requests to servers: libcurl.so.4 has no ", missing, kCurlHelp));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !is_new_enough(curl))
    return Unsupported(
        absl::StrCat("no requests to servers: libcurl.so.4 does not start, or is old", kCurlHelp));
  return curl;
}

const absl::StatusOr<Curl>& loaded_curl() {
  static const absl::StatusOr<Curl> loaded = load_curl();
  return loaded;
}

// REQUIRES: it is loaded, as it is where there is a client.
const Curl& curl() { return *loaded_curl(); }

using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

// Of one request.
struct Transfer {
  const HttpOptions* options;
  std::span<const std::byte> body;
  HttpAnswer answer;
  bool is_too_long = false;
};

size_t give_body(char* into, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = std::min(size * count, transfer.body.size());
  std::memcpy(into, transfer.body.data(), bytes);
  transfer.body = transfer.body.subspan(bytes);
  return bytes;
}

size_t take_body(char* from, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto room = static_cast<size_t>(transfer.options->answer_bytes_max);
  transfer.is_too_long = transfer.answer.body.size() + size * count > room;
  if (transfer.is_too_long) return 0;
  transfer.answer.body.append(from, size * count);
  return size * count;
}

size_t take_header(char* from, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string line(from, size * count);
  const size_t colon = line.find(':');
  if (colon == std::string::npos) return size * count;
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  transfer.answer.headers[name] = std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  return size * count;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(user)->options->is_cancelled() ? 1 : 0;
}

long seconds(absl::Duration duration) {
  return static_cast<long>(std::max<int64_t>(1, absl::ToInt64Seconds(duration)));
}

template <typename Value>
void set(CURL* handle, CURLoption option, Value value) {
  CHECK(curl().easy_setopt(handle, option, value) == CURLE_OK) << "curl option " << option;
}

class CurlClient : public HttpClient {
 public:
  explicit CurlClient(HttpOptions options) : options_(std::move(options)) {
    curl_ = curl().easy_init();
    CHECK(curl_ != nullptr) << "curl_easy_init";
  }
  ~CurlClient() override { curl().easy_cleanup(curl_); }

  absl::StatusOr<HttpAnswer> send(const HttpRequest& request) override {
    curl().easy_reset(curl_);  // keeps the connection
    Transfer transfer{&options_, request.body};
    const Headers headers = headers_of(request);
    set_up(request, headers.get(), transfer);
    const CURLcode code = curl().easy_perform(curl_);
    const std::string server = request.url.substr(0, request.url.find('?'));
    if (code != CURLE_OK) return failure(code, server, transfer);
    long status = 0;
    curl().easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    transfer.answer.status = static_cast<int>(status);
    return std::move(transfer.answer);
  }

 private:
  Headers headers_of(const HttpRequest& request) const {
    curl_slist* list = nullptr;
    for (const std::string& header : request.headers)
      list = curl().slist_append(list, header.c_str());
    if (!options_.signer.session_token.empty()) {
      const std::string token = "x-amz-security-token: " + options_.signer.session_token;
      list = curl().slist_append(list, token.c_str());
    }
    return {list, curl().slist_free_all};
  }

  void set_up(const HttpRequest& request, curl_slist* headers, Transfer& transfer) {
    set(curl_, CURLOPT_URL, request.url.c_str());
    set(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    set(curl_, CURLOPT_NOSIGNAL, 1L);
    set(curl_, CURLOPT_HTTPHEADER, headers);
    set(curl_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (request.method == "HEAD") {
      set(curl_, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.method == "POST") {
      set(curl_, CURLOPT_UPLOAD, 1L);
      set(curl_, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(curl_, CURLOPT_READFUNCTION, &give_body);
      set(curl_, CURLOPT_READDATA, &transfer);
    }
    set(curl_, CURLOPT_WRITEFUNCTION, &take_body);
    set(curl_, CURLOPT_WRITEDATA, &transfer);
    set(curl_, CURLOPT_HEADERFUNCTION, &take_header);
    set(curl_, CURLOPT_HEADERDATA, &transfer);
    set(curl_, CURLOPT_NOPROGRESS, 0L);
    set(curl_, CURLOPT_XFERINFOFUNCTION, &on_progress);
    set(curl_, CURLOPT_XFERINFODATA, &transfer);
    set(curl_, CURLOPT_CONNECTTIMEOUT, seconds(options_.connect_deadline));
    set(curl_, CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(curl_, CURLOPT_LOW_SPEED_TIME, seconds(options_.silence_deadline));
    const HttpSigner& signer = options_.signer;
    if (signer.key.empty()) return;
    set(curl_, CURLOPT_AWS_SIGV4, absl::StrCat("aws:amz:", signer.region, ":s3").c_str());
    set(curl_, CURLOPT_USERNAME, signer.key.c_str());
    set(curl_, CURLOPT_PASSWORD, signer.secret.c_str());
  }

  static absl::Status failure(CURLcode code, const std::string& server, const Transfer& transfer) {
    if (transfer.is_too_long) {
      return NoCapacity(absl::StrCat(server, ": an answer of more than ",
                                     transfer.options->answer_bytes_max, " bytes"));
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) return Cancelled(server + ": given up");
    const std::string text = absl::StrCat(server, ": ", curl().easy_strerror(code));
    return code == CURLE_OPERATION_TIMEDOUT ? Timeout(text) : Internal(text);
  }

  const HttpOptions options_;
  CURL* curl_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::create(HttpOptions options) {
  RETURN_IF_ERROR(loaded_curl().status());
  return std::make_unique<CurlClient>(std::move(options));
}

}  // namespace evermoe
