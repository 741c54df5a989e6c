#include "control/wire/control_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "control/wire/control_fields.h"

namespace evermoe {
namespace {

using control_fields::fields;

template <typename T>
concept Message = requires(T& value) {
  fields(value);
};

// What stands for a moment that has not come.
constexpr int64_t kNever = -1;

template <typename T>
constexpr size_t kElementsMax = kListMax;
template <>
constexpr size_t kElementsMax<StarvedWorker> = kWorkersMax;
template <>
constexpr size_t kElementsMax<AliveWorker> = kWorkersMax;
template <>
constexpr size_t kElementsMax<StepTime> = kStepTimesMax;
template <>
constexpr size_t kElementsMax<LinkTime> = kLinkTimesMax;

// ---- which values are sound

template <typename T>
bool is_sound(T value) {
  return value >= 0;
}  // counts, numbers of processes and stages
bool is_sound(uint32_t) { return true; }
bool is_sound(Rank rank) { return 0 <= rank.value && rank.value < kRanksMax; }
bool is_sound(Node node) { return 0 <= node.value && node.value < kRanksMax; }
bool is_sound(View) { return true; }
bool is_sound(Step step) { return step.value >= -1; }
bool is_sound(Commit commit) { return commit.value >= -1; }
bool is_sound(WorkerReport::Kind kind) { return kind <= WorkerReport::Kind::kExpertsMoved; }
bool is_sound(NodeStatus::State state) { return state <= NodeStatus::State::kLost; }
bool is_sound(RoleStatus::Phase phase) { return phase <= RoleStatus::Phase::kResting; }
bool is_sound(Milestone::Kind kind) { return kind <= Milestone::Kind::kCopying; }
bool is_sound(CannotLeave::Why why) { return why <= CannotLeave::Why::kNotTaken; }
bool is_sound(MoveRecord::State state) { return state <= MoveRecord::State::kCalledOff; }

// ---- writing

class Writer {
 public:
  std::string bytes;

  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void put(T value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof(T)); }
  void put(bool value) { put(static_cast<uint8_t>(value)); }
  void put(double value) { put(std::bit_cast<uint64_t>(value)); }
  template <typename Name, typename Value>
  void put(StrongId<Name, Value> id) {
    put(id.value);
  }
  void put(absl::Duration moment) {
    put(moment == absl::InfiniteDuration() ? kNever : absl::ToInt64Nanoseconds(moment));
  }
  void put(const std::string& text) {
    const size_t size = std::min(text.size(), kTextBytesMax);
    put(static_cast<uint32_t>(size));
    bytes.append(text, 0, size);
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put(static_cast<uint32_t>(list.size()));
    for (const T& one : list) put(one);
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename... T>
  void put(const std::variant<T...>& value) {
    put(static_cast<uint8_t>(value.index()));
    std::visit([this](const auto& one) { put(one); }, value);
  }
  template <Message T>
  void put(const T& message) {
    std::apply([this](const auto&... field) { (put(field), ...); }, fields(message));
  }
};

// ---- reading

// After the first thing that cannot be read, ok() is false and nothing more is read.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : at_(bytes.data()), left_(bytes.size()) {}
  bool ok() const { return ok_; }
  bool is_at_end() const { return left_ == 0; }

  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void take(T& value) {
    if (take_raw(value)) expect(is_sound(value));
  }
  void take(bool& value) {
    uint8_t byte = 0;
    take(byte);
    expect(byte <= 1);
    value = byte == 1;
  }
  void take(double& value) {
    uint64_t bits = 0;
    take_raw(bits);
    value = std::bit_cast<double>(bits);
  }
  template <typename Name, typename Value>
  void take(StrongId<Name, Value>& id) {
    if (take_raw(id.value)) expect(is_sound(id));
  }
  void take(absl::Duration& moment) {
    int64_t nanoseconds = 0;
    if (take_raw(nanoseconds)) expect(nanoseconds >= kNever);
    moment = nanoseconds == kNever ? absl::InfiniteDuration() : absl::Nanoseconds(nanoseconds);
  }
  void take(std::string& text) {
    const uint32_t size = take_size(kTextBytesMax);
    if (!ok_) return;
    text.assign(at_, size);
    skip(size);
  }
  template <typename T>
  void take(std::vector<T>& list) {
    // Every element takes at least a byte, so nobody can ask for more memory than he has sent.
    const uint32_t size = take_size(kElementsMax<T>);
    for (uint32_t i = 0; ok_ && i < size; ++i) take(list.emplace_back());
  }
  template <typename T>
  void take(std::optional<T>& value) {
    bool has = false;
    take(has);
    if (ok_ && has) take(value.emplace());
  }
  template <typename... T>
  void take(std::variant<T...>& value) {
    uint8_t kind = 0;
    take(kind);
    expect(kind < sizeof...(T));
    if (ok_) take_alternative<0>(kind, value);
  }
  template <Message T>
  void take(T& message) {
    std::apply([this](auto&... field) { ((ok_ ? take(field) : void()), ...); }, fields(message));
  }

 private:
  template <size_t I, typename... T>
  void take_alternative(size_t kind, std::variant<T...>& value) {
    if constexpr (I < sizeof...(T)) {
      if (kind == I) return take(value.template emplace<I>());
      take_alternative<I + 1>(kind, value);
    }
  }
  uint32_t take_size(size_t size_max) {
    uint32_t size = 0;
    take(size);
    expect(size <= size_max && size <= left_);
    return size;
  }
  template <typename T>
  bool take_raw(T& value) {
    expect(left_ >= sizeof(T));
    if (!ok_) return false;
    std::memcpy(&value, at_, sizeof(T));
    skip(sizeof(T));
    return true;
  }
  void skip(size_t size) {
    at_ += size;
    left_ -= size;
  }
  void expect(bool holds) { ok_ = ok_ && holds; }

  const char* at_;
  size_t left_;
  bool ok_ = true;
};

}  // namespace

std::string encode(const Envelope& envelope) {
  Writer writer;
  writer.put(envelope);
  return std::move(writer.bytes);
}

absl::StatusOr<Envelope> decode_envelope(const std::string& bytes) {
  Envelope envelope;
  Reader reader(bytes);
  reader.take(envelope);
  if (bytes.size() > kEnvelopeBytesMax || !reader.ok() || !reader.is_at_end()) {
    return Corrupt("not a message of the control plane");
  }
  return envelope;
}

}  // namespace evermoe
