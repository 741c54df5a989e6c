#include "data/sentencepiece_spec.h"

#include <cstring>
#include <functional>
#include <string_view>

#include "base/error.h"

namespace evermoe {
namespace {

// A field of a protobuf message: a number, or the bytes of a text, a message or a float.
struct ProtoField {
  uint64_t number = 0;
  uint64_t value = 0;
  std::string_view bytes;
};

// Takes a varint from the front; false if there is none.
bool take_varint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool take_bytes(std::string_view& from, uint64_t size, std::string_view& bytes) {
  if (size > from.size()) return false;
  bytes = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

bool take_field(std::string_view& from, ProtoField& field) {
  enum : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint64_t key = 0, size = 0;
  if (!take_varint(from, key)) return false;
  field = {.number = key >> 3};
  switch (key & 7) {
    case kVarint: return take_varint(from, field.value);
    case kFixed64: return take_bytes(from, 8, field.bytes);
    case kBytes: return take_varint(from, size) && take_bytes(from, size, field.bytes);
    case kFixed32: return take_bytes(from, 4, field.bytes);
    default: return false;
  }
}

// Calls `use` for every field of a message; false where it is not one, or `use` says so.
bool for_each_field(std::string_view message, const std::function<bool(const ProtoField&)>& use) {
  ProtoField field;
  while (!message.empty()) {
    if (!take_field(message, field) || !use(field)) return false;
  }
  return true;
}

// Field numbers below are those of sentencepiece_model.proto.

bool read_piece(std::string_view message, SentencePiece& piece) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 2 && field.bytes.size() == sizeof(float))
      std::memcpy(&piece.score, field.bytes.data(), sizeof(float));
    if (field.number == 3 && (field.value < 1 || field.value > 6)) return false;
    if (field.number == 3) piece.kind = static_cast<SentencePiece::Kind>(field.value);
    return true;
  });
}

bool read_trainer(std::string_view message, SentencePieceSpec& spec) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 3 && (field.value < 1 || field.value > 4)) return false;
    if (field.number == 3) spec.algorithm = static_cast<SentencePieceSpec::Algorithm>(field.value);
    if (field.number == 24) spec.ends_words_with_space = field.value != 0;
    if (field.number == 35) spec.has_byte_fallback = field.value != 0;
    return true;
  });
}

bool read_normalizer(std::string_view message, SentencePieceSpec& spec) {
  return for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 2) spec.rewrites_characters = !field.bytes.empty();
    if (field.number == 3) spec.adds_dummy_prefix = field.value != 0;
    if (field.number == 4) spec.removes_extra_spaces = field.value != 0;
    if (field.number == 5) spec.escapes_spaces = field.value != 0;
    return true;
  });
}

}  // namespace

absl::StatusOr<SentencePieceSpec> parse_sentencepiece_spec(const std::string& bytes) {
  SentencePieceSpec spec;
  const bool ok = for_each_field(bytes, [&](const ProtoField& field) {
    if (field.number == 1) return read_piece(field.bytes, spec.pieces.emplace_back());
    if (field.number == 2) return read_trainer(field.bytes, spec);
    if (field.number == 3) return read_normalizer(field.bytes, spec);
    return true;
  });
  if (!ok || spec.pieces.empty()) return Corrupt("not a SentencePiece model");
  return spec;
}

}  // namespace evermoe
