#include "recovery/protocol/findings.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr uint64_t kLengthMax = 1 << 20;

template <typename T>
void append(RecordBytes& bytes, const T* values, size_t count) {
  const size_t at = bytes.size();
  bytes.resize(at + count * sizeof(T));
  if (count > 0) std::memcpy(bytes.data() + at, values, count * sizeof(T));
}

class Reader {
 public:
  explicit Reader(const RecordBytes& bytes) : bytes_(bytes) {}

  template <typename T>
  bool take(T* values, size_t count) {
    if (bytes_.size() - at_ < count * sizeof(T)) return false;
    if (count > 0) std::memcpy(values, bytes_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return true;
  }
  template <typename T>
  bool take_all(std::vector<T>& values) {
    uint64_t count = 0;
    if (!take(&count, 1) || count > kLengthMax) return false;
    values.resize(count);
    return take(values.data(), count);
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  const RecordBytes& bytes_;
  size_t at_ = 0;
};

template <typename T>
void append_all(RecordBytes& bytes, const std::vector<T>& values) {
  const uint64_t count = values.size();
  append(bytes, &count, 1);
  append(bytes, values.data(), values.size());
}

}  // namespace

void combine(const Findings& part, Findings& whole) {
  if (whole.sums.empty() && whole.minima.empty()) {
    whole = part;
    return;
  }
  CHECK(part.sums.size() == whole.sums.size() && part.minima.size() == whole.minima.size());
  for (size_t i = 0; i < part.sums.size(); ++i) whole.sums[i] += part.sums[i];
  for (size_t i = 0; i < part.minima.size(); ++i)
    whole.minima[i] = std::min(whole.minima[i], part.minima[i]);
}

WindowRule next_rule(const WindowRule& before, Step state, int wanted_slots) {
  if (state == before.base || !before.is_first_of_window(state)) return before;
  if (wanted_slots <= 0 || wanted_slots == before.slots) return before;
  return rule_after_change(before, state, wanted_slots);
}

WindowRule rule_after_change(const WindowRule& before, Step state, int wanted_slots) {
  const int slots = wanted_slots > 0 ? wanted_slots : before.slots;
  const bool back_to_back = before.period == before.slots;
  return {state, slots, back_to_back ? slots : std::max(before.period, slots)};
}

RecordBytes encode(const Record& record) {
  RecordBytes bytes;
  append_all(bytes, record.combined.sums);
  append_all(bytes, record.combined.minima);
  append(bytes, &record.state.value, 1);
  append(bytes, &record.complete_window.value, 1);
  append(bytes, &record.rule.base.value, 1);
  append(bytes, &record.rule.slots, 1);
  append(bytes, &record.rule.period, 1);
  append(bytes, &record.run.view.value, 1);
  append(bytes, &record.run.own_saves.high, 1);
  append(bytes, &record.run.own_saves.low, 1);
  return bytes;
}

absl::StatusOr<Record> decode_record(const RecordBytes& bytes) {
  Record record;
  Reader reader(bytes);
  if (!reader.take_all(record.combined.sums) || !reader.take_all(record.combined.minima) ||
      !reader.take(&record.state.value, 1) || !reader.take(&record.complete_window.value, 1) ||
      !reader.take(&record.rule.base.value, 1) || !reader.take(&record.rule.slots, 1) ||
      !reader.take(&record.rule.period, 1) || !reader.take(&record.run.view.value, 1) ||
      !reader.take(&record.run.own_saves.high, 1) || !reader.take(&record.run.own_saves.low, 1) ||
      !reader.at_end() || record.rule.slots < 1 || record.rule.period < record.rule.slots) {
    return Corrupt("not a record of a commit");
  }
  return record;
}

}  // namespace evermoe
