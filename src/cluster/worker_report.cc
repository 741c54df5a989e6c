#include "cluster/worker_report.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

using Json = nlohmann::json;
using Kind = WorkerReport::Kind;

// JSON writes a byte of text as at most six ("\u0001"), so a line stays below kReportLineBytesMax.
constexpr size_t kTextBytesMax = 8 << 10;

constexpr const char* kKindNames[] = {"alive",     "ready",    "step",  "evaluated",
                                      "published", "finished", "failed"};

// A training that diverges reports infinities and NaN, which JSON numbers cannot be.
Json number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

std::optional<double> to_number(const Json& value) {
  if (value.is_number_float()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Reads the fields of one object; after the first that is missing or of another type, ok() is false.
// Whether there are too many is found by encoding the result again.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  bool ok() const { return ok_; }

  void read(const char* name, double& into) {
    const auto value = to_number(find(name));
    value ? void(into = *value) : fail();
  }
  void read(const char* name, bool& into) {
    const Json& value = find(name);
    value.is_boolean() ? void(into = value.get<bool>()) : fail();
  }
  void read(const char* name, std::string& into) {
    const Json& value = find(name);
    value.is_string() ? void(into = value.get<std::string>()) : fail();
  }
  template <typename Name, typename Value>
  void read(const char* name, StrongId<Name, Value>& into) {
    const Json& value = find(name);
    if (!value.is_number_integer()) return fail();
    const int64_t wide = value.get<int64_t>();
    into = StrongId<Name, Value>(static_cast<Value>(wide));
    if (into.value != wide) fail();
  }
  bool has(const char* name) const { return object_.contains(name); }

 private:
  const Json& find(const char* name) {
    static const Json kNone;
    const auto at = object_.find(name);
    return at == object_.end() ? kNone : *at;
  }
  void fail() { ok_ = false; }

  const Json& object_;
  bool ok_ = true;
};

// A message of a library may hold any bytes: those that are not UTF-8 are replaced. A text that was
// cut to size once is not cut again.
std::string cut_text(const std::string& text) {
  const std::string valid = Json(text.substr(0, kTextBytesMax)).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string result = Json::parse(valid).get<std::string>();
  if (result.size() <= kTextBytesMax) return result;
  size_t size = kTextBytesMax;
  while (size > 0 && (static_cast<unsigned char>(result[size]) & 0xc0) == 0x80) --size;
  return result.substr(0, size);
}

std::optional<Kind> kind_named(const std::string& name) {
  for (size_t i = 0; i < std::size(kKindNames); ++i) {
    if (name == kKindNames[i]) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

void read_protection(Fields& fields, ProtectionState& state) {
  StrongId<struct IntegerName, int64_t> window_steps, log_bytes, snapshot_bytes, captured_bytes;
  fields.read("window_steps", window_steps);
  fields.read("complete_window", state.complete_window);
  fields.read("log_bytes", log_bytes);
  fields.read("snapshot_bytes", snapshot_bytes);
  fields.read("captured_bytes", captured_bytes);
  fields.read("read_wait_seconds", state.read_wait_seconds);
  fields.read("copy_wait_seconds", state.copy_wait_seconds);
  fields.read("copying_seconds", state.copying_seconds);
  state.window_steps = static_cast<int>(window_steps.value);
  state.log_bytes = log_bytes.value;
  state.snapshot_bytes = snapshot_bytes.value;
  state.captured_bytes = captured_bytes.value;
}

void add_protection(const ProtectionState& state, Json& line) {
  line["window_steps"] = state.window_steps;
  line["complete_window"] = state.complete_window.value;
  line["log_bytes"] = state.log_bytes;
  line["snapshot_bytes"] = state.snapshot_bytes;
  line["captured_bytes"] = state.captured_bytes;
  line["read_wait_seconds"] = number(state.read_wait_seconds);
  line["copy_wait_seconds"] = number(state.copy_wait_seconds);
  line["copying_seconds"] = number(state.copying_seconds);
}

void read_fields(Fields& fields, WorkerReport& report) {
  fields.read("rank", report.rank);
  fields.read("step", report.step);
  switch (report.kind) {
    case Kind::kAlive:
    case Kind::kPublished:
      return;
    case Kind::kReady:
      return fields.read("text", report.text);
    case Kind::kStep:
      fields.read("loss", report.loss);
      fields.read("gradient_norm", report.gradient_norm);
      fields.read("learning_rate", report.learning_rate);
      fields.read("load_imbalance", report.load_imbalance);
      if (fields.has("window_steps")) read_protection(fields, report.protection.emplace());
      return fields.read("tokens_per_second", report.tokens_per_second);
    case Kind::kEvaluated:
      return fields.read("validation_loss", report.validation_loss);
    case Kind::kFinished:
      return fields.read("drained", report.drained);
    case Kind::kFailed:
      fields.read("text", report.text);
      fields.read("bad_input", report.bad_input);
      if (fields.has("accused")) fields.read("accused", report.accused.emplace());
      return;
  }
}

}  // namespace

std::string encode(const WorkerReport& report) {
  Json line = {{"kind", kKindNames[static_cast<int>(report.kind)]},
               {"rank", report.rank.value},
               {"step", report.step.value}};
  switch (report.kind) {
    case Kind::kAlive:
    case Kind::kPublished:
      break;
    case Kind::kReady:
      line["text"] = cut_text(report.text);
      break;
    case Kind::kStep:
      line["loss"] = number(report.loss);
      line["gradient_norm"] = number(report.gradient_norm);
      line["learning_rate"] = number(report.learning_rate);
      line["load_imbalance"] = number(report.load_imbalance);
      line["tokens_per_second"] = number(report.tokens_per_second);
      if (report.protection) add_protection(*report.protection, line);
      break;
    case Kind::kEvaluated:
      line["validation_loss"] = number(report.validation_loss);
      break;
    case Kind::kFinished:
      line["drained"] = report.drained;
      break;
    case Kind::kFailed:
      line["text"] = cut_text(report.text);
      line["bad_input"] = report.bad_input;
      if (report.accused) line["accused"] = report.accused->value;
      break;
  }
  return line.dump() + "\n";
}

absl::StatusOr<WorkerReport> decode_report(const std::string& line) {
  const auto corrupt = [&] {
    return Corrupt(absl::StrCat("not a worker's report: \"", line.substr(0, 80), "\""));
  };
  if (std::ssize(line) > kReportLineBytesMax) return corrupt();
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return corrupt();
  const auto name = object.find("kind");
  if (name == object.end() || !name->is_string()) return corrupt();
  const std::optional<Kind> kind = kind_named(name->get<std::string>());
  if (!kind) return corrupt();
  WorkerReport report;
  report.kind = *kind;
  Fields fields(object);
  read_fields(fields, report);
  // encode() has one way to write a report, so this also finds further fields, doubled ones and
  // other spellings of a number.
  if (!fields.ok() || encode(report) != line) return corrupt();
  return report;
}

}  // namespace evermoe
