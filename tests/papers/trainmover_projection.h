// TrainMover's Fig. 9 as this runtime would have it: forecasts of jobs of 1,024 to 131,072 GPUs
// with the recoveries and moves that `evermoe profile --job` has measured.
#pragma once

#include "papers/trainmover_comparison.h"
#include "planner/measured/runtime_profile.h"

namespace evermoe {

// What a process on a GPU needs beside ours, which were measured on processors. 0: as measured.
struct GpuSeconds {
  double connect = 0;  // after every change of processes: nothing is connected beforehand
  double warm_up = 0;  // of a process that no standby was warm for
};
// Table 1: 24.5 % and 40.4 % of 4.45 minutes.
inline constexpr GpuSeconds kGpuSecondsOfTable1{.connect = 1.09 * 60, .warm_up = 1.80 * 60};

// A machine that is switched off is noticed when it has been silent for so long (docs/cluster.md).
inline constexpr double kSilenceSeconds = 10;
// 1 : 8.9 of the events are announced.
inline constexpr double kAnnouncedShare = 1 / 9.9;

// What failures and moves take of a week's GPU hours: downtime and work that is done again; with a
// standby also a machine of 8 GPUs that idles.
struct ProjectedWaste {
  int gpus = 0;
  double mtbf_seconds = 0;  // of events of both kinds
  double standby = 0;       // sparse windows, warm standbys, moves
  double no_standby = 0;    // the same with processes that are started then; moves, too
  double restarts = 0;      // checkpoints on storage, and everybody starts again at every event
  double below_no_standby() const { return 1 - standby / no_standby; }
  double below_restarts() const { return 1 - standby / restarts; }
};

// Of mixtral-8x7b on the default cluster, planned for the size. Another machine is at hand two
// minutes after each event, as the paper has it. REQUIRES: profile.recovery.
ProjectedWaste project_waste(const RuntimeProfile& profile, const GpuSeconds& gpu,
                             const WasteScale& scale, int runs);

}  // namespace evermoe
