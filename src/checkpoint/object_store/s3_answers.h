// What an S3 server says in XML. The bytes are a stranger's.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/object_store/object_store.h"
#include "env/http.h"

namespace evermoe {

struct ObjectPage {
  std::vector<StoredObject> objects;  // with whole keys
  std::string next;                   // empty: that was the last page
};

// Corrupt, beginning with `from`, if it is not what it should be.
absl::StatusOr<ObjectPage> parse_object_page(const std::string& xml, const std::string& from);
absl::StatusOr<std::string> parse_upload_id(const std::string& xml, const std::string& from);

// <Error> of an answer: its code and what it says; empty if it is none. The text has printable
// characters alone, and at most 200.
struct S3Error {
  std::string code;
  std::string message;
};
S3Error parse_s3_error(const std::string& xml);
// Ok for 2xx; else as ObjectStore's errors, in one line. `method` is what was asked: a write that
// is answered with 404 has no bucket, a read no object.
absl::Status s3_status(const std::string& method, const HttpAnswer& answer,
                       const std::string& what);

// The request that makes an object of its parts; `tags` as the server gave them, in order.
std::string complete_upload_text(const std::vector<std::string>& tags);

}  // namespace evermoe
