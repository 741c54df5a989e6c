// Objects in a bucket of an S3 server, or of one that understands its requests.
//
// Where it is and who asks comes from the variables that all such tools use: AWS_ENDPOINT_URL
// (https://s3.REGION.amazonaws.com), AWS_REGION or AWS_DEFAULT_REGION (us-east-1),
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. Keys are in no message, log or
// file.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "checkpoint/object_store/object_store.h"
#include "env/http.h"

namespace evermoe {

inline constexpr char kS3Scheme[] = "s3://";
inline constexpr char kS3UrlHelp[] =
    "s3://BUCKET or s3://BUCKET/PREFIX of letters, digits, . _ - and /";

struct S3Place {
  std::string bucket;
  std::string prefix;  // empty, or without "/" at either end
};
bool is_s3_url(const std::string& text);
// InvalidInput that says what is allowed.
absl::StatusOr<S3Place> parse_s3_url(const std::string& text);

struct S3Options {
  HttpOptions http;
  std::string endpoint;           // "http://127.0.0.1:9000", without "/" at the end
  int64_t page_objects = 1000;    // of a list that are asked for at once
  int64_t part_bytes = 16 << 20;  // of an upload in parts; grows with files of more than 10,000
};
// From the environment of this process. InvalidInput names the variable that is missing or wrong.
absl::StatusOr<S3Options> s3_options();

absl::StatusOr<std::unique_ptr<ObjectStore>> open_s3_store(const std::string& url,
                                                           S3Options options);

}  // namespace evermoe
