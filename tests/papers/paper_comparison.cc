#include "papers/paper_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "planner/simulate/closed_forms.h"
#include "protection/interval/interval.h"
#include "protection/schedule/window.h"

namespace evermoe {
namespace {

const std::vector<PaperEttrRow>& rows_of(const PaperTables& tables, const std::string& table) {
  CHECK(table == "Table 3" || table == "Table 7") << table;
  return table == "Table 3" ? tables.table3 : tables.table7;
}

std::vector<PaperEttrRow> rows_of(const PaperTables& tables, const std::string& table,
                                  const std::string& system) {
  std::vector<PaperEttrRow> rows;
  for (const PaperEttrRow& row : rows_of(tables, table)) {
    if (row.system == system) rows.push_back(row);
  }
  return rows;
}

// A job whose nodes together fail as often as the table says; each failure is a crash of one of
// several nodes that all keep copies, so that none are ever lost: the papers' formulas know no such
// loss.
RunEstimates simulate(TrainedJob job, RunStrategy strategy, double mtbf_seconds, int runs) {
  job.nodes = job.stages * (job.stages < 8 ? 8 : 1);
  strategy.copies = job.nodes - 1;
  const auto source = [&](uint64_t seed) {
    return draw_availability({.node_mtbf_seconds = mtbf_seconds * job.nodes}, job.nodes, 0, seed);
  };
  return estimate_runs(job, strategy, {.wall_seconds = kPaperRunSeconds}, source, runs, 1);
}

Estimate simulate_moetion(const PaperModelInputs& inputs, const PaperEttrRow& row,
                          const MoetionReading& reading, int runs) {
  RunStrategy strategy{.protection = StateProtection::kSparse};
  strategy.step_overhead_share =
      row.overhead_seconds / inputs.step_seconds + reading.extra_overhead_share;
  strategy.sparse = {.window = row.window,
                     .conversion_seconds = inputs.step_seconds * (row.window - 1)};
  strategy.recovery.restart = reading.fixed_seconds;
  TrainedJob job{.step_seconds = inputs.step_seconds};
  if (reading.only_failed_stage) {
    job.stages = inputs.stages;
    job.rounds = inputs.rounds;
  }
  return simulate(job, strategy, row.mtbf_seconds, runs).ettr;
}

RunStrategy gemini_strategy(const PaperEttrRow& row) {
  RunStrategy strategy;
  const auto every = static_cast<int64_t>(row.interval_steps);
  strategy.save = {.every_steps = every,
                   .stall_seconds = row.interval_steps * row.overhead_seconds};
  return strategy;
}

Deviation dense_deviation(const PaperModelInputs& inputs, std::span<const PaperEttrRow> rows,
                          double d, double c) {
  std::vector<double> differences;
  for (const PaperEttrRow& row : rows)
    differences.push_back(dense_row_ettr(inputs, row, d, c) - row.ettr);
  return deviation_of(differences);
}

DenseFit fit_rows(const PaperModelInputs& inputs, const std::vector<PaperEttrRow>& rows) {
  DenseFit best{.system = rows[0].system, .model = rows[0].model};
  best.printed = best.fitted = dense_deviation(inputs, rows, 0, 0);
  for (int points = 0; points <= 60; ++points) {
    for (int seconds = 0; seconds <= 300; ++seconds) {
      const Deviation deviation = dense_deviation(inputs, rows, points / 1000.0, seconds);
      if (deviation.rms >= best.fitted.rms) continue;
      best.fitted = deviation;
      best.overhead = points / 1000.0;
      best.seconds = seconds;
    }
  }
  return best;
}

}  // namespace

Deviation deviation_of(std::span<const double> differences) {
  CHECK(!differences.empty());
  Deviation result;
  for (const double difference : differences) {
    result.rms += difference * difference / static_cast<double>(differences.size());
    result.worst = std::max(result.worst, std::abs(difference));
  }
  result.rms = std::sqrt(result.rms);
  return result;
}

std::vector<EttrComparison> compare_moetion(const PaperTables& tables, const std::string& table,
                                            const MoetionReading& reading, int runs) {
  std::vector<EttrComparison> result;
  for (const PaperEttrRow& row : rows_of(tables, table, "MoEtion")) {
    result.push_back(
        {row, simulate_moetion(tables.inputs_of(table, row.model), row, reading, runs)});
  }
  return result;
}

double dense_row_ettr(const PaperModelInputs& inputs, const PaperEttrRow& row, double d, double c) {
  return dense_ettr(inputs.step_seconds, gemini_strategy(row).save, d, c, row.mtbf_seconds);
}

std::vector<DenseFit> fit_dense(const PaperTables& tables, const std::string& table) {
  std::vector<DenseFit> fits;
  for (const char* system : {"Gemini", "CheckFreq"}) {
    for (const PaperModelInputs& inputs : tables.inputs) {
      if (inputs.table != table) continue;
      std::vector<PaperEttrRow> rows = rows_of(tables, table, system);
      std::erase_if(rows, [&](const PaperEttrRow& row) { return row.model != inputs.model; });
      if (!rows.empty()) fits.push_back(fit_rows(inputs, rows));
    }
  }
  return fits;
}

std::vector<RecoveryComparison> compare_gemini_recovery(const PaperTables& tables, int runs) {
  std::vector<RecoveryComparison> result;
  for (const PaperEttrRow& row : rows_of(tables, "Table 3", "Gemini")) {
    if (row.model != "DeepSeek-MoE") continue;
    const double step = tables.inputs_of("Table 3", row.model).step_seconds;
    const double failures = kPaperRunSeconds / row.mtbf_seconds;
    RecoveryComparison next{.paper = row,
                            .formula_seconds = failures * row.interval_steps * step / 2};
    next.ours =
        simulate({.step_seconds = step}, gemini_strategy(row), row.mtbf_seconds, runs).rework_share;
    for (double* value : {&next.ours.mean, &next.ours.deviation, &next.ours.error, &next.ours.low,
                          &next.ours.high}) {
      *value *= kPaperRunSeconds;
    }
    result.push_back(next);
  }
  return result;
}

std::vector<IntervalComparison> compare_gemini_intervals(const PaperTables& tables) {
  const std::vector<PaperEttrRow> rows = rows_of(tables, "Table 3", "Gemini");
  std::map<std::string, std::vector<double>> implied;
  for (const PaperEttrRow& row : rows) {
    const double work = row.interval_steps * tables.inputs_of("Table 3", row.model).step_seconds;
    implied[row.model].push_back(work * work / (2 * row.mtbf_seconds));
  }
  std::vector<IntervalComparison> result;
  for (const PaperEttrRow& row : rows) {
    const double save = estimate_mean(implied[row.model]).mean;
    const double work =
        best_interval_seconds({.save_seconds = save, .mtbf_seconds = row.mtbf_seconds});
    result.push_back({row, save, work / tables.inputs_of("Table 3", row.model).step_seconds});
  }
  return result;
}

std::vector<WindowComparison> compare_windows(const PaperTables& tables, double bandwidth) {
  std::vector<WindowComparison> result;
  for (const PaperModelInputs& inputs : tables.inputs) {
    const double budget =
        inputs.step_seconds * bandwidth / (inputs.frozen_bytes * inputs.parameters);
    const double rho = inputs.active_bytes / inputs.frozen_bytes;
    WindowComparison next{.paper = inputs};
    if (budget > 1)
      next.algorithm1 = std::max(1, static_cast<int>(std::ceil((rho - 1) / (budget - 1))));
    next.minimal = closed_form_window_length(budget, rho).value_or(0);
    result.push_back(next);
  }
  return result;
}

std::vector<StallComparison> compare_moc_stalls(const PaperTables& tables) {
  std::vector<StallComparison> result;
  for (const PaperEttrRow& row : rows_of(tables, "Table 7", "MoC")) {
    if (row.mtbf != "10M") continue;
    const PaperModelInputs& inputs = tables.inputs_of("Table 7", row.model);
    result.push_back({row, (row.overhead_seconds + inputs.step_seconds) / inputs.active_bytes});
  }
  return result;
}

std::vector<MemoryComparison> compare_memory(const PaperTables& tables) {
  std::vector<MemoryComparison> result;
  for (const PaperMemoryRow& row : tables.table6) {
    const PaperModelInputs& inputs = tables.inputs_of("Table 3", row.model);
    result.push_back(
        {.paper = row,
         .gemini_per_parameter = row.gemini_bytes / inputs.parameters,
         .sparse_extra = (row.moetion_checkpoint_bytes - row.gemini_bytes) / inputs.parameters,
         .sparse_extra_expected = inputs.window - 1.0});
  }
  return result;
}

// T = 40 s, 16 rounds, 36 s per failure for both. MoEtion: W = 4, 2 % overhead. Gemini: a dense save
// that stalls 59 s at 671B and otherwise in proportion to a GPU's parameters, at its own optimum.
std::vector<ScaleComparison> compare_scale(int runs) {
  constexpr double kStep = 40, kRestart = 36, kLargestStall = 59;
  struct Size {
    double parameters;
    int gpus, stages;
  };
  constexpr Size kSizes[] = {
      {32e9, 512, 16}, {67e9, 1536, 24}, {145e9, 4096, 32}, {671e9, 16384, 64}};
  const Size& largest = kSizes[3];
  std::vector<ScaleComparison> result;
  for (const Size& size : kSizes) {
    const double stall =
        kLargestStall * (size.parameters / size.gpus) / (largest.parameters / largest.gpus);
    for (const double mtbf : {3600.0, 1800.0, 600.0}) {
      RunStrategy moetion{.protection = StateProtection::kSparse, .step_overhead_share = 0.02};
      moetion.sparse = {.window = 4, .conversion_seconds = 3 * kStep};
      RunStrategy gemini;
      const double work = best_interval_seconds({.save_seconds = stall, .mtbf_seconds = mtbf});
      gemini.save = {.every_steps = std::max<int64_t>(1, std::llround(work / kStep)),
                     .stall_seconds = stall};
      moetion.recovery.restart = gemini.recovery.restart = kRestart;
      const TrainedJob job{.step_seconds = kStep, .stages = size.stages, .rounds = 16};
      result.push_back({size.parameters, size.gpus, mtbf, simulate(job, moetion, mtbf, runs).ettr,
                        simulate(job, gemini, mtbf, runs).ettr});
    }
  }
  return result;
}

TraceComparison compare_six_hours(const PaperTables& tables) {
  const PaperModelInputs& inputs = tables.inputs_of("Table 3", "DeepSeek-MoE");
  FailureTrace crashes;
  crashes.nodes.assign(static_cast<size_t>(inputs.stages), "node");
  crashes.up_at_start.assign(crashes.nodes.size(), true);
  for (const FailureTrace::Event& event : tables.six_hours.events) {
    if (event.kind != AvailabilityEvent::Kind::kDown) continue;
    const int node = static_cast<int>(crashes.events.size()) % inputs.stages;
    crashes.events.push_back({event.seconds, AvailabilityEvent::Kind::kCrash, {node}});
  }
  const TrainedJob job{.step_seconds = inputs.step_seconds,
                       .nodes = inputs.stages,
                       .stages = inputs.stages,
                       .rounds = inputs.rounds};
  auto ettr = [&](const RunStrategy& strategy) {
    return simulate_run(job, strategy, *play_availability(crashes), {.wall_seconds = 6 * 3600})
        .ettr();
  };
  RunStrategy moetion{.protection = StateProtection::kSparse, .copies = inputs.stages - 1};
  moetion.step_overhead_share = 0.06 / inputs.step_seconds;
  moetion.sparse = {.window = inputs.window,
                    .conversion_seconds = inputs.step_seconds * (inputs.window - 1)};
  const PaperEttrRow gemini{.interval_steps = 92, .overhead_seconds = 0.07},
      checkfreq{.interval_steps = 124, .overhead_seconds = 0.08};
  return {static_cast<int>(crashes.events.size()), ettr(moetion), ettr(gemini_strategy(gemini)),
          ettr(gemini_strategy(checkfreq))};
}

double localized_share(int stages, int rounds) {
  return TrainedJob{.stages = stages, .rounds = rounds}.stage_share(1);
}

}  // namespace evermoe
