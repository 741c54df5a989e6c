#include "planner/failures/failure_trace.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

using Kind = AvailabilityEvent::Kind;
using Fields = std::vector<std::string>;

constexpr double kSecondsPerDay = 86400;
constexpr size_t kShownMax = 60;
constexpr char kFaultHeader[] = "time_days,node,event,level,class,desc";

absl::Status bad_line(const std::string& origin, size_t line, const std::string& found,
                      const std::string& allowed) {
  const std::string shown = absl::Utf8SafeCEscape(found.substr(0, kShownMax));
  return InvalidInput(
      absl::StrCat(origin, ":", line, ": found \"", shown, "\", allowed: ", allowed));
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e15)
    return std::nullopt;
  return value;
}

absl::StatusOr<std::vector<std::string>> lines_of(const std::string& text,
                                                  const std::string& origin) {
  if (std::ssize(text) > kTraceBytesMax) {
    return InvalidInput(
        absl::StrCat(origin, ": found ", text.size(), " bytes, allowed: at most ", kTraceBytesMax));
  }
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Nodes numbered by first appearance.
class NodeNames {
 public:
  int id(const std::string& name) {
    const auto [at, is_new] = ids_.emplace(name, static_cast<int>(names_.size()));
    if (is_new) names_.push_back(name);
    return at->second;
  }
  std::vector<std::string> take() { return std::move(names_); }
  int count() const { return static_cast<int>(names_.size()); }

 private:
  std::unordered_map<std::string, int> ids_;
  std::vector<std::string> names_;
};

// Events by (time, kind): one for all nodes that share both. Ups come first, so that a replacement
// that comes with a loss is there.
using EventTable = std::map<std::pair<double, Kind>, std::set<int>>;

std::vector<FailureTrace::Event> events_of(const EventTable& table) {
  std::vector<FailureTrace::Event> events;
  for (const auto& [when, nodes] : table) {
    events.push_back({when.first, when.second, std::vector<int>(nodes.begin(), nodes.end())});
  }
  return events;
}

class PlayedTrace : public AvailabilitySource {
 public:
  explicit PlayedTrace(const FailureTrace& trace) : trace_(trace) {}
  std::optional<AvailabilityEvent> next() override {
    if (next_ == trace_.events.size()) return std::nullopt;
    const FailureTrace::Event& event = trace_.events[next_++];
    return AvailabilityEvent{event.seconds, event.kind, event.nodes};
  }
  int nodes() const override { return static_cast<int>(trace_.nodes.size()); }
  bool up_at_start(int node) const override {
    return trace_.up_at_start[static_cast<size_t>(node)];
  }

 private:
  const FailureTrace& trace_;
  size_t next_ = 0;
};

// Reads line by line; `trace` grows as far as lines were good.
class InstanceReader {
 public:
  explicit InstanceReader(const std::string& origin) : origin_(origin) {}

  absl::Status read(size_t line, const std::string& text) {
    const Fields fields = absl::StrSplit(text, ',');
    const std::optional<double> time = fields.size() == 3 ? number(fields[0]) : std::nullopt;
    const bool is_add = time && fields[1] == "add";
    if (!time || (!is_add && fields[1] != "remove") || fields[2].empty()) {
      return bad_line(origin_, line, text, "time_ms,add|remove,node");
    }
    const double seconds = *time / 1000;
    if (line == 1) begin_ = seconds;
    if (seconds < last_) return bad_line(origin_, line, fields[0], "times that never fall");
    last_ = seconds;
    const int node = names_.id(fields[2]);
    const bool fits = is_add ? !up_.contains(node) && !gone_.contains(node) : up_.contains(node);
    if (!fits)
      return bad_line(origin_, line, text, "a node is added once and then removed at most once");
    record(seconds, node, is_add);
    return absl::OkStatus();
  }

  FailureTrace take() {
    FailureTrace trace;
    trace.nodes = names_.take();
    trace.up_at_start = std::move(up_at_start_);
    trace.events = events_of(table_);
    trace.end_seconds = last_ - begin_;
    return trace;
  }

 private:
  void record(double seconds, int node, bool is_add) {
    up_at_start_.resize(static_cast<size_t>(names_.count()), false);
    if (is_add) {
      up_.insert(node);
    } else {
      up_.erase(node);
      gone_.insert(node);
    }
    if (is_add && seconds == begin_) {
      up_at_start_[static_cast<size_t>(node)] = true;
    } else {
      table_[{seconds - begin_, is_add ? Kind::kUp : Kind::kDown}].insert(node);
    }
  }

  const std::string& origin_;
  NodeNames names_;
  std::set<int> up_, gone_;
  std::vector<bool> up_at_start_;
  EventTable table_;
  double begin_ = 0, last_ = 0;
};

class FaultReader {
 public:
  explicit FaultReader(const std::string& origin) : origin_(origin) {}

  absl::Status read(size_t line, const std::string& text) {
    const Fields fields = absl::StrSplit(text, absl::MaxSplits(',', 5));
    const std::optional<double> days = fields.size() == 6 ? number(fields[0]) : std::nullopt;
    const bool is_start = days && fields[2] == "fault_start";
    if (!days || (!is_start && fields[2] != "fault_end"))
      return bad_line(origin_, line, text, kFaultHeader);
    const double seconds = *days * kSecondsPerDay;
    if (seconds < last_) return bad_line(origin_, line, fields[0], "times that never fall");
    last_ = seconds;
    const int node = names_.id(fields[1]);
    causes_.resize(static_cast<size_t>(names_.count()), 0);
    if (fields[3] == "Software Failure") return crash(seconds, node, is_start);
    int& causes = causes_[static_cast<size_t>(node)];
    if (!is_start && causes == 0)
      return bad_line(origin_, line, text, "fault_end after its fault_start");
    causes += is_start ? 1 : -1;
    if (is_start && causes == 1) table_[{seconds, Kind::kDown}].insert(node);
    if (!is_start && causes == 0) end_fault(seconds, node);
    return absl::OkStatus();
  }

  FailureTrace take(int nodes) {
    FailureTrace trace;
    trace.nodes = names_.take();
    for (int n = static_cast<int>(trace.nodes.size()); n < nodes; ++n) {
      trace.nodes.push_back(absl::StrCat("unnamed-", n));
    }
    trace.up_at_start.assign(static_cast<size_t>(nodes), true);
    trace.events = events_of(table_);
    trace.end_seconds = last_;
    return trace;
  }

  int named() const { return names_.count(); }

 private:
  absl::Status crash(double seconds, int node, bool is_start) {
    if (is_start && causes_[static_cast<size_t>(node)] == 0)
      table_[{seconds, Kind::kCrash}].insert(node);
    return absl::OkStatus();
  }

  void end_fault(double seconds, int node) {
    const auto begun_now = table_.find({seconds, Kind::kDown});
    if (begun_now == table_.end() || begun_now->second.erase(node) == 0) {
      table_[{seconds, Kind::kUp}].insert(node);
      return;
    }
    // A fault of no length: the node is there, what it ran is not.
    if (begun_now->second.empty()) table_.erase(begun_now);
    table_[{seconds, Kind::kCrash}].insert(node);
  }

  const std::string& origin_;
  NodeNames names_;
  std::vector<int> causes_;  // by node: faults that last
  EventTable table_;
  double last_ = 0;
};

}  // namespace

absl::StatusOr<FailureTrace> parse_instance_trace(const std::string& text,
                                                  const std::string& origin) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, lines_of(text, origin));
  if (lines.empty()) return bad_line(origin, 1, "", "at least one event");
  InstanceReader reader(origin);
  for (size_t i = 0; i < lines.size(); ++i) RETURN_IF_ERROR(reader.read(i + 1, lines[i]));
  return reader.take();
}

absl::StatusOr<FailureTrace> parse_fault_trace(const std::string& text, const std::string& origin,
                                               int nodes) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, lines_of(text, origin));
  if (lines.empty() || lines[0] != kFaultHeader) {
    return bad_line(origin, 1, lines.empty() ? "" : lines[0], kFaultHeader);
  }
  FaultReader reader(origin);
  for (size_t i = 1; i < lines.size(); ++i) RETURN_IF_ERROR(reader.read(i + 1, lines[i]));
  if (reader.named() > nodes) {
    return bad_line(origin, lines.size(), absl::StrCat(reader.named(), " nodes"),
                    absl::StrCat("at most ", nodes));
  }
  return reader.take(nodes);
}

FailureTrace::Summary FailureTrace::summary() const {
  Summary result;
  int up = static_cast<int>(std::count(up_at_start.begin(), up_at_start.end(), true));
  double last = 0, node_seconds = 0;
  result.nodes_max = up;
  for (const Event& event : events) {
    node_seconds += up * (event.seconds - last);
    last = event.seconds;
    const int count = static_cast<int>(event.nodes.size());
    if (event.kind == Kind::kUp) up += count;
    if (event.kind == Kind::kDown || event.kind == Kind::kAnnounced) {
      result.largest_share = std::max(result.largest_share, static_cast<double>(count) / up);
      up -= count;
      ++result.removals;
      result.nodes_removed += count;
    }
    if (up <= result.nodes_max) continue;
    result.nodes_max = up;
    result.nodes_max_seconds = event.seconds;
  }
  node_seconds += up * (end_seconds - last);
  result.nodes_mean = end_seconds > 0 ? node_seconds / end_seconds : up;
  return result;
}

std::unique_ptr<AvailabilitySource> play_availability(const FailureTrace& trace) {
  CHECK(trace.nodes.size() == trace.up_at_start.size());
  return std::make_unique<PlayedTrace>(trace);
}

}  // namespace evermoe
