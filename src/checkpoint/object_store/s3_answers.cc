#include "checkpoint/object_store/s3_answers.h"

#include <pugixml.hpp>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr size_t kErrorTextMax = 200;
constexpr size_t kKeyBytesMax = 1024;  // of S3

// pugixml expands no entities but the five of XML, and reads no other document.
absl::StatusOr<pugi::xml_node> root_of(pugi::xml_document& document, const std::string& xml,
                                       const char* name, const std::string& from) {
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node root = document.child(name);
  if (parsed && root) return root;
  return Corrupt(absl::StrCat(from, ": the answer is no ", name));
}

std::string printable(const char* text) {
  std::string result;
  for (const char* c = text; *c != '\0' && result.size() < kErrorTextMax; ++c)
    result += absl::ascii_isprint(static_cast<unsigned char>(*c)) ? *c : ' ';
  return result;
}

constexpr char kAskedWrongly[] =
    "; AWS_ENDPOINT_URL, AWS_REGION and the bucket's name have to fit together";

bool is_write(const std::string& method) { return method == "PUT" || method == "POST"; }

// The bytes of a request that were lost on their way, and uploads that the server has forgotten.
bool is_passing(const std::string& code) {
  return code == "RequestTimeout" || code == "IncompleteBody" || code == "BadDigest" ||
         code == "NoSuchUpload";
}

}  // namespace

absl::StatusOr<ObjectPage> parse_object_page(const std::string& xml, const std::string& from) {
  pugi::xml_document document;
  ASSIGN_OR_RETURN(const pugi::xml_node root, root_of(document, xml, "ListBucketResult", from));
  ObjectPage page;
  for (const pugi::xml_node entry : root.children("Contents")) {
    StoredObject object{entry.child_value("Key"), 0};
    const bool is_size = absl::SimpleAtoi(entry.child_value("Size"), &object.bytes);
    if (object.name.empty() || object.name.size() > kKeyBytesMax || !is_size || object.bytes < 0)
      return Corrupt(absl::StrCat(from, ": an entry of the list has no key or no size"));
    page.objects.push_back(std::move(object));
  }
  if (std::string_view(root.child_value("IsTruncated")) != "true") return page;
  page.next = root.child_value("NextContinuationToken");
  if (page.next.empty()) return Corrupt(from + ": the list goes on, but does not say where");
  return page;
}

absl::StatusOr<std::string> parse_upload_id(const std::string& xml, const std::string& from) {
  pugi::xml_document document;
  ASSIGN_OR_RETURN(const pugi::xml_node root,
                   root_of(document, xml, "InitiateMultipartUploadResult", from));
  std::string id = root.child_value("UploadId");
  if (id.empty() || id.size() > kKeyBytesMax) return Corrupt(from + ": the upload has no name");
  return id;
}

S3Error parse_s3_error(const std::string& xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size())) return {};
  const pugi::xml_node root = document.child("Error");
  return {printable(root.child_value("Code")), printable(root.child_value("Message"))};
}

absl::Status s3_status(const std::string& method, const HttpAnswer& answer,
                       const std::string& what) {
  if (answer.status >= 200 && answer.status < 300) return absl::OkStatus();
  const S3Error error = parse_s3_error(answer.body);
  const std::string text =
      absl::StrCat(what, ": the store answers ", answer.status, error.code.empty() ? "" : " ",
                   error.code, error.message.empty() ? "" : ": ", error.message);
  if (is_passing(error.code)) return Internal(text);
  if (error.code == "NoSuchBucket" || (answer.status == 404 && is_write(method)))
    return InvalidInput(text + "; allowed: a bucket that exists");
  switch (answer.status) {
    case 301:
    case 302:
    case 307:
    case 308:
    case 400: return InvalidInput(text + kAskedWrongly);
    case 401:
    case 403: return absl::PermissionDeniedError(text);
    case 404: return NotFound(text);
    default: return Internal(text);
  }
}

std::string complete_upload_text(const std::vector<std::string>& tags) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("CompleteMultipartUpload");
  for (size_t i = 0; i < tags.size(); ++i) {
    pugi::xml_node part = root.append_child("Part");
    part.append_child("PartNumber").text().set(static_cast<unsigned>(i + 1));
    part.append_child("ETag").text().set(tags[i].c_str());
  }
  std::ostringstream text;
  document.save(text, "", pugi::format_raw);
  return text.str();
}

}  // namespace evermoe
