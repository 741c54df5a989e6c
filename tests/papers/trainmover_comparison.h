// TrainMover: what interruptions of a job waste with warm standbys and without, by the simulation
// of runs (planner/simulate).
#pragma once

#include <vector>

namespace evermoe {

// Seconds of one interruption, the same for every size. Fitted: they give all four percentages
// that the paper prints for Fig. 9, and are near the 20 to 30 s and "more than 200 s" of its text.
inline constexpr double kStandbySeconds = 25, kNoStandbySeconds = 55.5, kParcaeSeconds = 206;

// GPU hours that a week wastes, as shares of all GPU hours; an idle standby machine of 8 GPUs is
// waste.
struct WasteComparison {
  int gpus = 0;
  double mtbf_seconds = 0;
  double standby = 0, no_standby = 0, parcae = 0;
  double below_no_standby() const { return 1 - standby / no_standby; }
  double below_parcae() const { return 1 - standby / parcae; }
};
// 1024, 8192, 65536 and 131072 GPUs.
std::vector<WasteComparison> compare_waste(int runs);

// Share of a job's time that restarts of `seconds` take, one every `mtbf_seconds` and again where a
// failure hits one (Fig. 2).
double restarts_share(double seconds, double mtbf_seconds, int runs);

// ETTR of six hours in which a machine is replaced every 10 minutes (Fig. 16): training pauses for
// `seconds` each time, by migration to a spare or by a restart of everybody.
double rebalanced_ettr(double seconds, bool migrates);

}  // namespace evermoe
