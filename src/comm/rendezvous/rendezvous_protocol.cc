#include "comm/rendezvous/rendezvous_protocol.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace evermoe {
namespace {

using Json = nlohmann::json;

// Of a fingerprint value in an error message.
constexpr size_t kShownCharsMax = 60;

std::string frame(const Json& json) {
  // Bytes that are not UTF-8 are replaced: an address or fingerprint is text.
  const std::string body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string message(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    message[i] = static_cast<char>(body.size() >> (8 * (kLengthBytes - 1 - i)));
  }
  return message + body;
}

absl::StatusOr<Json> parse(const std::string& body) {
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return Corrupt("a rendezvous message is not a JSON object");
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer()) {
    return Corrupt("a rendezvous message has no version");
  }
  if (*version != kRendezvousVersion) {
    return InvalidInput(absl::StrCat("the other end speaks rendezvous version ", version->dump(),
                                     ", this one ", kRendezvousVersion));
  }
  return json;
}

// Turns the exceptions of nlohmann's typed access into Corrupt.
template <typename Message, typename Fill>
absl::StatusOr<Message> decode(const std::string& body, Fill fill) {
  ASSIGN_OR_RETURN(const Json json, parse(body));
  try {
    Message message;
    fill(json, message);
    return message;
  } catch (const Json::exception& error) {
    return Corrupt(absl::StrCat("a rendezvous message is damaged: ", error.what()));
  }
}

std::map<std::string, std::string> key_values(const std::string& text) {
  std::map<std::string, std::string> values;
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits('=', 1));
    values[entry.first] = entry.second;
  }
  return values;
}

std::string shown(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  if (found == values.end()) return "nothing";
  return absl::StrCat("\"", found->second.substr(0, kShownCharsMax), "\"");
}

// "cpu is "avx2" on rank 3 and "avx512" on rank 0", for every key that differs.
std::string differences(const std::string& reference, const std::string& other, size_t rank) {
  const auto expected = key_values(reference);
  const auto found = key_values(other);
  std::set<std::string> keys;
  for (const auto& entry : expected) keys.insert(entry.first);
  for (const auto& entry : found) keys.insert(entry.first);
  std::vector<std::string> parts;
  for (const std::string& key : keys) {
    const std::string here = shown(found, key);
    const std::string there = shown(expected, key);
    if (here != there) {
      parts.push_back(
          absl::StrCat(key, " is ", here, " on rank ", rank, " and ", there, " on rank 0"));
    }
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string encode(const JoinMessage& message) {
  return frame({{"version", kRendezvousVersion},
                {"rank", message.rank},
                {"world_size", message.world_size},
                {"address", message.address},
                {"fingerprint", message.fingerprint}});
}

std::string encode(const ReplyMessage& message) {
  return frame({{"version", kRendezvousVersion},
                {"is_result", message.is_result},
                {"missing", message.missing},
                {"refusal", message.refusal},
                {"addresses", message.addresses}});
}

absl::StatusOr<JoinMessage> decode_join(const std::string& body) {
  return decode<JoinMessage>(body, [](const Json& json, JoinMessage& message) {
    json.at("rank").get_to(message.rank);
    json.at("world_size").get_to(message.world_size);
    json.at("address").get_to(message.address);
    json.at("fingerprint").get_to(message.fingerprint);
  });
}

absl::StatusOr<ReplyMessage> decode_reply(const std::string& body) {
  return decode<ReplyMessage>(body, [](const Json& json, ReplyMessage& message) {
    json.at("is_result").get_to(message.is_result);
    json.at("missing").get_to(message.missing);
    json.at("refusal").get_to(message.refusal);
    json.at("addresses").get_to(message.addresses);
  });
}

size_t decode_length(const char* bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

absl::Status compare_fingerprints(const std::vector<std::string>& by_rank) {
  std::vector<size_t> ranks;
  std::vector<std::string> reasons;
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    if (by_rank[rank] == by_rank[0]) continue;
    ranks.push_back(rank);
    reasons.push_back(differences(by_rank[0], by_rank[rank], rank));
  }
  if (ranks.empty()) return absl::OkStatus();
  return InvalidInput(absl::StrCat("ranks ", absl::StrJoin(ranks, ", "),
                                   " differ from rank 0: ", absl::StrJoin(reasons, "; ")));
}

}  // namespace evermoe
