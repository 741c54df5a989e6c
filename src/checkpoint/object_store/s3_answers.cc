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
