// TrainMover: what interruptions of a job waste with warm standbys and without, by the simulation
// of runs (planner/simulate).
#pragma once

#include <vector>

namespace evermoe {

// Seconds of one interruption, the same for every size. Fitted: they give all four percentages
// that the paper prints for Fig. 9, and are near the 20 to 30 s and "more than 200 s" of its text.
inline constexpr double kStandbySeconds = 25, kNoStandbySeconds = 55.5, kParcaeSeconds = 206;

// 7.9 h observed by Meta, 3 h as printed, 27 and 14 minutes projected by Meta.
struct WasteScale {
  int gpus;
  double mtbf_seconds;
};
inline constexpr WasteScale kWasteScales[] = {
    {1024, 7.9 * 3600}, {8192, 3 * 3600}, {65536, 1620}, {131072, 840}};

// GPU hours that a week wastes, as shares of all GPU hours; an idle standby machine of 8 GPUs is
// waste.
struct WasteComparison {
  int gpus = 0;
  double mtbf_seconds = 0;
  double standby = 0, no_standby = 0, parcae = 0;
  double below_no_standby() const { return 1 - standby / no_standby; }
  double below_parcae() const { return 1 - standby / parcae; }
};
// Of kWasteScales.
std::vector<WasteComparison> compare_waste(int runs);

// Share of a job's time that restarts of `seconds` take, one every `mtbf_seconds` and again where a
// failure hits one (Fig. 2).
double restarts_share(double seconds, double mtbf_seconds, int runs);

// ETTR of six hours in which a machine is replaced every 10 minutes (Fig. 16): training pauses for
// `seconds` each time, by migration to a spare or by a restart of everybody.
double rebalanced_ettr(double seconds, bool migrates);

}  // namespace evermoe
