#include "cli/experiment/run_record.h"

#include <algorithm>

#include <utility>

#include "absl/strings/str_split.h"

namespace evermoe {
namespace {

// A recovery's moments in order, and what the time until each is called.
constexpr std::pair<const char*, const char*> kPhases[] = {{"detect", "detect_seconds"},
                                                           {"view", "view_seconds"},
                                                           {"load", "load_seconds"},
                                                           {"catch_up", "catch_up_seconds"},
                                                           {"resume", "resume_seconds"}};

void add_phases(nlohmann::json& record) {
  nlohmann::json phases = nlohmann::json::object();
  for (const auto& [moment, phase] : kPhases) phases[phase] = 0.0;
  for (const nlohmann::json& failure : record["failures"]) {
    const nlohmann::json& timeline = failure.at("timeline");
    double before = 0;
    for (const auto& [moment, phase] : kPhases) {
      if (!timeline.is_object() || !timeline.at(moment).is_number()) continue;
      const double at = std::max(before, timeline[moment].get<double>());
      phases[phase] = phases[phase].get<double>() + at - before;
      before = at;
    }
  }
  record["recovery"] = std::move(phases);
}

void add_sums(nlohmann::json& record) {
  for (const char* name :
       {"failure_count", "seconds_lost", "recomputed_steps", "undone_steps", "recovery"})
    record[name] = nullptr;
  if (!record["failures"].is_array()) return;
  double seconds = 0;
  int64_t again = 0, undone = 0;
  for (const nlohmann::json& failure : record["failures"]) {
    if (failure.at("seconds_lost").is_number()) seconds += failure["seconds_lost"].get<double>();
    if (failure.at("recomputed_steps").is_number())
      again += failure["recomputed_steps"].get<int64_t>();
    const nlohmann::json& from = failure.at("restarted_from_step");
    if (from.is_number())
      undone += std::max<int64_t>(0, failure.at("step").get<int64_t>() - from.get<int64_t>());
  }
  record["failure_count"] = record["failures"].size();
  record["seconds_lost"] = seconds;
  record["recomputed_steps"] = again;
  record["undone_steps"] = undone;
  add_phases(record);
}

// Of rank 0, from metrics.jsonl.
void add_costs(const JobEnd& end, nlohmann::json& record) {
  double stall = 0, copying = 0;
  int64_t captured = 0, kept = 0;
  for (const absl::string_view text : absl::StrSplit(end.metrics, '\n')) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("captured_bytes")) continue;
    stall += line.value("read_wait_seconds", 0.0) + line.value("copy_wait_seconds", 0.0);
    copying += line.value("copying_seconds", 0.0);
    captured += line.value("captured_bytes", int64_t{0});
    kept = std::max(kept,
                    line.value("log_bytes", int64_t{0}) + line.value("snapshot_bytes", int64_t{0}));
  }
  record["stall_seconds"] = stall;
  record["copying_seconds"] = copying;
  record["captured_bytes"] = captured;
  record["kept_bytes_max"] = kept;
  record["memory_peak_bytes"] = end.seen.memory_peak_bytes > 0
                                    ? nlohmann::json(end.seen.memory_peak_bytes)
                                    : nlohmann::json();
}

}  // namespace

nlohmann::json run_record(const JobEnd& end, const std::string& system, const JobConfig& job,
                          const std::string& process, uint64_t seed, const Yardsticks& around) {
  const Yardstick yardstick = mean_of(around.before, around.after);
  nlohmann::json record = {{"system", system},
                           {"strategy", std::string(to_string(job.protection.strategy))},
                           {"failure_process", process},
                           {"seed", seed},
                           {"ettr", nullptr},
                           {"step_seconds", yardstick.step_seconds},
                           {"step_seconds_before", around.before.step_seconds},
                           {"step_seconds_after", around.after.step_seconds},
                           {"beside_seconds", yardstick.beside_seconds},
                           {"goodput_tokens_per_s", nullptr}};
  for (const char* name :
       {"status", "lost_token_share", "is_exact", "digest", "steps", "seconds", "final_loss",
        "restarts", "failures", "membership_history", "rebalances"})
    record[name] = end.summary.is_object() ? end.summary.at(name) : nlohmann::json();
  add_sums(record);
  add_costs(end, record);
  if (!end.summary.is_object()) record["status"] = "unfinished";
  if (record["status"] != "finished") return record;
  const auto ettr = ettr_of(end.summary.at("seconds"), job.train.steps, yardstick);
  if (!ettr) return record;
  record["ettr"] = *ettr;
  const auto tokens = static_cast<double>(job.train.micro_batches * job.train.micro_batch_size *
                                          job.model.sequence_length);
  record["goodput_tokens_per_s"] = *ettr * tokens / yardstick.step_seconds;
  return record;
}

void add_prediction(const PredictedRun& predicted, nlohmann::json& record) {
  const SimulatedRun& run = predicted.run;
  record["predicted_ettr"] = predicted.ettr;
  record["prediction_error"] = record.at("ettr").is_number()
                                   ? nlohmann::json(predicted.ettr - record["ettr"].get<double>())
                                   : nlohmann::json();
  record["predicted"] = {{"seconds", predicted.seconds},
                         {"protection_seconds", run.protection_seconds},
                         {"rework_seconds", run.rework_seconds},
                         {"detection_seconds", run.detection_seconds},
                         {"change_seconds", run.change_seconds},
                         {"restore_seconds", run.restore_seconds()},
                         {"recoveries", run.recoveries},
                         {"fallbacks", run.fallbacks},
                         {"lost_token_share", predicted.lost_token_share}};
}

void add_no_prediction(nlohmann::json& record) {
  for (const char* name : {"predicted_ettr", "prediction_error", "predicted"})
    record[name] = nullptr;
}

}  // namespace evermoe
