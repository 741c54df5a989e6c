// The text of CACHE/tokens.json (docs/formats/token-file.md).
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "data/job_tokens.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRecordVersion = 1;

Json to_json(const KnownFile& file) {
  return {{"path", file.path},
          {"inode", file.identity.inode},
          {"bytes", file.identity.bytes},
          {"modified_ns", file.identity.modified_ns},
          {"changed_ns", file.identity.changed_ns}};
}

// The entry `name` of an object; null if there is none, which no getter below takes for a value.
const Json& entry(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

bool read(const Json& json, int64_t& into) {
  if (!json.is_number_integer()) return false;
  into = json.get<int64_t>();
  return true;
}

bool read(const Json& json, std::string& into) {
  if (!json.is_string()) return false;
  into = json.get<std::string>();
  return true;
}

bool read(const Json& json, KnownFile& into) {
  int64_t inode = 0;
  const bool ok = read(entry(json, "path"), into.path) && read(entry(json, "inode"), inode) &&
                  read(entry(json, "bytes"), into.identity.bytes) &&
                  read(entry(json, "modified_ns"), into.identity.modified_ns) &&
                  read(entry(json, "changed_ns"), into.identity.changed_ns);
  into.identity.inode = static_cast<uint64_t>(inode);
  return ok;
}

bool read(const Json& json, PreparedTokens& into) {
  std::string contents;
  if (!read(entry(json, "source"), into.source) ||
      !read(entry(json, "tokenizer"), into.tokenizer) ||
      !read(entry(json, "tokens"), into.tokens) || !read(entry(json, "contents"), contents)) {
    return false;
  }
  const std::optional<Fingerprint> fingerprint = fingerprint_from_hex(contents);
  if (fingerprint) into.contents = *fingerprint;
  return fingerprint.has_value();
}

// A file that is damaged names other files, or other fingerprints, than were found.
std::string seal(const Json& sources) {
  const std::string text = sources.dump(-1, ' ', false, Json::error_handler_t::replace);
  return to_hex(fingerprint(std::as_bytes(std::span(text))));
}

}  // namespace

std::string token_record_text(const TokenRecord& record) {
  Json sources = Json::array();
  for (const PreparedTokens& one : record) {
    sources.push_back({{"source", to_json(one.source)},
                       {"tokenizer", to_json(one.tokenizer)},
                       {"tokens", to_json(one.tokens)},
                       {"contents", to_hex(one.contents)}});
  }
  const Json json = {
      {"version", kRecordVersion}, {"sources", sources}, {"fingerprint", seal(sources)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<TokenRecord> parse_token_record(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  int64_t version = 0;
  if (!read(entry(json, "version"), version)) return Corrupt("not a record of prepared tokens");
  if (version != kRecordVersion) {
    return Corrupt(absl::StrCat("format version ", version, ", this build reads ", kRecordVersion));
  }
  const Json& sources = entry(json, "sources");
  std::string fingerprint;
  if (!read(entry(json, "fingerprint"), fingerprint) || fingerprint != seal(sources)) {
    return Corrupt("does not have the fingerprint that it names");
  }
  TokenRecord record;
  for (const Json& one : sources) {
    if (!read(one, record.emplace_back()))
      return Corrupt(absl::StrCat("source ", record.size() - 1, " is incomplete"));
  }
  if (record.empty() || record.size() > 2)
    return Corrupt(absl::StrCat(record.size(), " sources, allowed: 1 or 2"));
  return record;
}

}  // namespace evermoe
