// What papers print against what follows from their own inputs here.
//
// No number is tuned unless it is called *fitted*. "Ours" is the simulation's mean over many
// 12-hour runs, or an exact law. Which differences are fair to expect, and which rows cannot be met
// by any model because they contradict each other, is for paper_page.h to say.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "papers/paper_tables.h"
#include "planner/simulate/estimate.h"

namespace evermoe {

inline constexpr double kPaperRunSeconds = 12 * 3600;

struct Deviation {
  double rms = 0;
  double worst = 0;  // the largest absolute difference
};
Deviation deviation_of(std::span<const double> differences);

// How MoEtion's rows are read: the paper's inputs alone, or with what its numbers imply besides.
struct MoetionReading {
  double extra_overhead_share = 0;  // of a step
  double fixed_seconds = 0;         // per failure
  bool only_failed_stage = false;   // catch-up at rounds / (rounds + stages - 1)
};
inline constexpr MoetionReading kFormulaReading{};
// Fitted once over Table 3: 0.8 points, 5 s, localized catch-up.
inline constexpr MoetionReading kFittedReading{0.008, 5, true};

struct EttrComparison {
  PaperEttrRow paper;
  Estimate ours;  // over runs of 12 hours; its deviation is the scatter of a single one
  double difference() const { return ours.mean - paper.ettr; }
};

// MoEtion's rows of "Table 3" or "Table 7". `runs` simulated runs for each.
std::vector<EttrComparison> compare_moetion(const PaperTables& tables, const std::string& table,
                                            const MoetionReading& reading, int runs);

// Gemini or CheckFreq: the exact law with the printed interval and overhead, a stall of interval x
// overhead per save, and c seconds per failure and d of the step besides.
double dense_row_ettr(const PaperModelInputs& inputs, const PaperEttrRow& row, double d, double c);

struct DenseFit {
  std::string system;
  std::string model;
  Deviation printed;    // with d = c = 0
  double overhead = 0;  // fitted d
  double seconds = 0;   // fitted c
  Deviation fitted;
};
// One row for each system (Gemini, CheckFreq) and model of the table, least squares over a grid.
std::vector<DenseFit> fit_dense(const PaperTables& tables, const std::string& table);

// Gemini's recovery column for DeepSeek-MoE (Table 3), the only dense cells that follow from their
// row.
struct RecoveryComparison {
  PaperEttrRow paper;
  double formula_seconds = 0;  // N I T / 2, N = 12 h / MTBF
  Estimate ours;               // rework of simulated runs of 12 hours
};
std::vector<RecoveryComparison> compare_gemini_recovery(const PaperTables& tables, int runs);

struct IntervalComparison {
  PaperEttrRow paper;
  double save_seconds = 0;    // fitted: one per model, mean of (I T)^2 / (2 MTBF)
  double interval_steps = 0;  // the exact optimum for it
};
std::vector<IntervalComparison> compare_gemini_intervals(const PaperTables& tables);

// Windows for equal operators when all nodes together copy `bandwidth` bytes per second.
struct WindowComparison {
  PaperModelInputs paper;
  int algorithm1 = 0;  // the paper's rule: ceil((rho - 1) / (b - 1)); 0 for none
  int minimal = 0;     // protection/schedule/window.h's; 0 for none
};
inline constexpr double kFittedWindowBandwidth = 21.5e9;
std::vector<WindowComparison> compare_windows(const PaperTables& tables, double bandwidth);

// MoC's rows of Table 7 at 10M: (overhead + step) / bytes per parameter, one number if the stall is
// max(0, bytes / bandwidth - step).
struct StallComparison {
  PaperEttrRow paper;
  double seconds_per_byte = 0;  // of a parameter's state
};
std::vector<StallComparison> compare_moc_stalls(const PaperTables& tables);

struct MemoryComparison {
  PaperMemoryRow paper;
  double gemini_per_parameter = 0;   // bytes
  double sparse_extra = 0;           // bytes per parameter of X beyond Gemini's 26
  double sparse_extra_expected = 0;  // W - 1: what equal slots capture compute-only, 2 bytes each
};
std::vector<MemoryComparison> compare_memory(const PaperTables& tables);

// MoEtion and Gemini at the four sizes of Fig. 11, each at three MTBFs, under parameters that the
// paper does not give and that are chosen here.
struct ScaleComparison {
  double parameters = 0;
  int gpus = 0;
  double mtbf_seconds = 0;
  Estimate moetion;
  Estimate gemini;
};
std::vector<ScaleComparison> compare_scale(int runs);

// DeepSeek-MoE through six hours in which 24 failures fire, as in Fig. 10, each taking one node's
// processes; the printed intervals (124 and 92 steps) and overheads, no other cost. ETTRs of the
// one run.
struct TraceComparison {
  int failures = 0;
  double moetion = 0, gemini = 0, checkfreq = 0;
};
TraceComparison compare_six_hours(const PaperTables& tables);

// Of a step, what one failed stage of a pipeline takes to run it again when logs serve its
// boundaries (Fig. 9b).
double localized_share(int stages, int rounds);

}  // namespace evermoe
