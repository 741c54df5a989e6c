#include "cli/experiment/profile_measurements.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// A save is copied, and written, while these run.
constexpr int64_t kSaveSteps = 2;
// The first step has the start in it, the second one warms up.
constexpr int64_t kWarmSteps = 2;

using Lines = std::map<int64_t, nlohmann::json>;  // of metrics.jsonl, by step

Lines lines_of(const std::string& metrics) {
  Lines lines;
  for (const absl::string_view text : absl::StrSplit(metrics, '\n')) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (line.is_object() && line.contains("loss") && line.contains("seconds") &&
        line["seconds"].is_number())
      lines[line.value("step", int64_t{0})] = line;
  }
  return lines;
}

double seconds_of(const nlohmann::json& line) { return line.at("seconds").get<double>(); }

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The first step that the job had not committed before. Its line has the whole recovery in it, also
// where everybody went back to disk: steps that are run again are not recorded again.
int64_t resumed_step(const nlohmann::json& failure) {
  return failure.at("step").get<int64_t>() + 1;
}

// Nothing if it did not come to its end.
std::optional<MeasuredMove> move_of(const nlohmann::json& move) {
  std::map<std::string, double> at;
  for (const nlohmann::json& moment : move.at("timeline"))
    at[moment.at("what").get<std::string>()] = moment.at("seconds").get<double>();
  for (const char* what : {"last commit", "handed over", "planned", "restored", "next commit"}) {
    if (!at.contains(what)) return std::nullopt;
  }
  if (move.at("state") != "done") return std::nullopt;
  return MeasuredMove{
      .hand_over = at["handed over"] - at["last commit"],
      .change = at["planned"] - at["handed over"],
      .load = at["restored"] - at["planned"],
      .settle = at["next commit"] - at["restored"] - move.at("usual_step_seconds").get<double>(),
      .bytes = move.at("bytes").get<double>()};
}

class RunReader {
 public:
  RunReader(const JobEnd& end, LostKind lost)
      : end_(end), lost_(lost), lines_(lines_of(end.metrics)) {
    for (const nlohmann::json& failure : end.summary.at("failures")) settle(resumed_step(failure));
    for (const nlohmann::json& move : moves()) {
      if (move.at("step").is_number()) settle(move.at("step").get<int64_t>() + 1);
    }
    for (const JobSightings::Checkpoint& save : end.seen.checkpoints) {
      for (int64_t after = 1; after <= kSaveSteps; ++after) saving_.insert(save.step + after);
    }
  }

  absl::StatusOr<MeasuredRun> read() {
    std::vector<double> usual = seconds(true);
    if (usual.empty()) usual = seconds(false);  // a save after every step or two
    if (usual.empty() || mean(usual) <= 0)
      return absl::FailedPreconditionError("a measuring run has no undisturbed steps");
    step_ = mean(usual);
    MeasuredRun run{.step_seconds = step_};
    read_ends(run);
    read_saves(run);
    for (const auto& [step, line] : lines_)
      run.window_steps = line.value("window_steps", run.window_steps);
    for (const nlohmann::json& failure : end_.summary.at("failures")) {
      const bool was_warm = failure.value("standby", false);
      if (lost_ == LostKind::kStandby && !was_warm) continue;
      if (auto one = failure_of(failure)) run.failures.push_back(*one);
    }
    for (const nlohmann::json& move : moves()) {
      if (auto one = move_of(move)) run.moves.push_back(*one);
    }
    return run;
  }

 private:
  nlohmann::json moves() const {
    return end_.summary.value("moves", nlohmann::json(nlohmann::json::array()));
  }

  void settle(int64_t resumed) {
    for (int64_t step = resumed; step < resumed + kSettlingSteps; ++step) settling_.insert(step);
  }

  std::vector<double> seconds(bool without_saves) const {
    std::vector<double> values;
    for (const auto& [step, line] : lines_) {
      if (step <= kWarmSteps || settling_.contains(step)) continue;
      if (without_saves && saving_.contains(step)) continue;
      values.push_back(seconds_of(line));
    }
    return values;
  }

  void read_ends(MeasuredRun& run) const {
    const std::vector<JobSightings::Step>& steps = end_.seen.steps;
    if (steps.empty()) return;
    double first = steps.front().seconds - step_;
    for (const auto& [step, line] : lines_) {
      if (step > 1 && step <= steps.front().step) first -= seconds_of(line);
    }
    run.begin_seconds = std::max(0.0, first);
    run.end_seconds =
        std::max(0.0, end_.summary.at("seconds").get<double>() - steps.back().seconds);
  }

  void read_saves(MeasuredRun& run) const {
    const int64_t last = lines_.empty() ? 0 : lines_.rbegin()->first;
    for (const JobSightings::Checkpoint& save : end_.seen.checkpoints) {
      if (save.step >= last) break;  // the one at the end lengthens nothing
      run.save_lag_steps.push_back(
          static_cast<double>(std::max<int64_t>(0, save.newest - save.step)));
      double longer = 0;
      bool is_whole = true;
      for (int64_t step = save.step + 1; step <= save.step + kSaveSteps && is_whole; ++step) {
        const auto line = lines_.find(step);
        is_whole = line != lines_.end() && !settling_.contains(step) && step > kWarmSteps;
        if (is_whole) longer += seconds_of(line->second) - step_;
      }
      if (is_whole) run.save_seconds.push_back(longer);
    }
  }

  // Nothing if the job did not go on after it.
  std::optional<MeasuredFailure> failure_of(const nlohmann::json& failure) const {
    const nlohmann::json& timeline = failure.at("timeline");
    if (!timeline.is_object() || !timeline.at("resume").is_number()) return std::nullopt;
    const auto until = [&](const char* name, double otherwise) {
      const nlohmann::json& value = timeline.at(name);
      return value.is_number() ? std::max(otherwise, value.get<double>()) : otherwise;
    };
    MeasuredFailure one;
    one.detect = until("detect", 0);
    const double view = until("view", one.detect), load = until("load", view);
    one.view = view - one.detect;
    one.load = load - view;
    double known = load;
    int64_t trained_again = 0;  // from disk: what the simulation has as training that was undone
    const nlohmann::json& from = failure.at("restarted_from_step");
    if (from.is_number()) {
      trained_again = std::max<int64_t>(0, failure.at("step").get<int64_t>() - from.get<int64_t>());
    } else {
      one.steps_again = failure.at("recomputed_steps").get<int64_t>();
    }
    if (one.steps_again > 0) {
      known = until("catch_up", load);
      one.again = known - load;
    }
    one.settle = timeline.at("resume").get<double>() - known -
                 static_cast<double>(trained_again + 1) * step_;
    const int64_t resumed = resumed_step(failure);
    for (int64_t step = resumed + 1; step < resumed + kSettlingSteps; ++step) {
      const auto line = lines_.find(step);
      if (line != lines_.end() && !saving_.contains(step))
        one.settle += seconds_of(line->second) - step_;
    }
    return one;
  }

  const JobEnd& end_;
  const LostKind lost_;
  const Lines lines_;
  std::set<int64_t> settling_;  // steps after a recovery
  std::set<int64_t> saving_;    // steps while a durable save is under way
  double step_ = 0;
};

LossProfile loss_profile(LostKind lost, std::span<const MeasuredRun> runs) {
  std::vector<double> detects, views, loads, settles, again;
  double again_seconds = 0, again_steps = 0;
  for (const MeasuredRun& run : runs) {
    if (run.lost != lost) continue;
    for (const MeasuredFailure& failure : run.failures) {
      detects.push_back(failure.detect);
      views.push_back(failure.view);
      loads.push_back(failure.load);
      settles.push_back(failure.settle);
      again.push_back(static_cast<double>(failure.steps_again));
      again_seconds += failure.again;
      again_steps += static_cast<double>(failure.steps_again);
    }
  }
  return {.detect_seconds = mean(detects),
          .view_seconds = mean(views),
          .load_seconds = mean(loads),
          .step_again_seconds = again_steps > 0 ? again_seconds / again_steps : 0,
          .settle_seconds = mean(settles),
          .steps_again = mean(again),
          .failures = std::ssize(settles)};
}

MoveProfile move_profile(std::span<const MeasuredRun> runs) {
  std::vector<double> hand_overs, changes, loads, settles, bytes;
  for (const MeasuredRun& run : runs) {
    for (const MeasuredMove& move : run.moves) {
      hand_overs.push_back(move.hand_over);
      changes.push_back(move.change);
      loads.push_back(move.load);
      settles.push_back(move.settle);
      bytes.push_back(move.bytes);
    }
  }
  return {.hand_over_seconds = mean(hand_overs),
          .switch_seconds = mean(changes),
          .load_seconds = mean(loads),
          .settle_seconds = mean(settles),
          .bytes = mean(bytes),
          .moves = std::ssize(bytes)};
}

}  // namespace

absl::StatusOr<MeasuredRun> measured_run(const JobEnd& end, LostKind lost) {
  if (!end.summary.is_object() || end.summary.value("status", "") != "finished")
    return absl::FailedPreconditionError("a measuring run did not finish");
  ASSIGN_OR_RETURN(MeasuredRun run, RunReader(end, lost).read());
  run.lost = lost;
  return run;
}

StrategyProfile strategy_profile(StrategyKind kind, std::span<const MeasuredRun> runs,
                                 std::span<const MeasuredRun> prepared) {
  CHECK(!runs.empty());
  std::vector<double> steps, begins, ends, windows, saves, lags;
  for (const MeasuredRun& run : runs) {
    steps.push_back(run.step_seconds);
    begins.push_back(run.begin_seconds);
    ends.push_back(run.end_seconds);
    windows.push_back(run.window_steps);
    saves.insert(saves.end(), run.save_seconds.begin(), run.save_seconds.end());
    lags.insert(lags.end(), run.save_lag_steps.begin(), run.save_lag_steps.end());
  }
  return {.kind = kind,
          .step_seconds = mean(steps),
          .begin_seconds = mean(begins),
          .end_seconds = mean(ends),
          .window_steps = kind == StrategyKind::kSparse ? mean(windows) : 0,
          .save_seconds = std::max(0.0, mean(saves)),
          .save_lag_steps = mean(lags),
          .worker = loss_profile(LostKind::kWorker, runs),
          .node = loss_profile(LostKind::kNode, runs),
          .standby = loss_profile(LostKind::kStandby, prepared),
          .move = move_profile(prepared)};
}

}  // namespace evermoe
