// What can be said about a run without simulating it: expectations under Poisson failures, exact
// unless a comment says otherwise. The simulation is held to them.
//
// M is the mean time between failures of the job. A failure during a recovery starts it again, so
// one of R seconds takes M (e^(R/M) - 1) on average.
#pragma once

#include <cstdint>

#include "planner/simulate/run_strategy.h"

namespace evermoe {

// Saves of everything, everybody goes back. Per try a run lives M seconds on average and keeps what
// was durable; with s = work between saves, C = stall and d = seconds until a save is usable
//
//   ETTR = s e^(-d/M) / (M e^(R/M) (e^((s+C)/M) - 1))
//
// which for d = 0 is protection/interval/interval.h's efficiency(). Times share_of_step = step /
// (longer step).
// REQUIRES: save.every_steps >= 1.
double dense_ettr(double step_seconds, const PeriodicSave& save, double step_overhead_share,
                  double recovery_seconds, double mtbf_seconds);

// Sparse capture: a failure destroys no work, but costs R, whose law is known. Per second of
// training there are 1/M failures, so ETTR = 1 / ((1 + overhead) E[e^(R/M)]), over the place of the
// failure in the window.
// REQUIRES: all failures hit `adjacent` stages.
double sparse_ettr(const TrainedJob& job, const SparseCapture& sparse, double step_overhead_share,
                   double fixed_seconds, double mtbf_seconds, int adjacent);

// E[R] of the same without fixed seconds: stage share x (conversion + (W/2 + 1 + lag) T). With a
// conversion of W - 1 full steps and one stage in all it is 3/2 W T.
double sparse_catch_up_seconds(const TrainedJob& job, const SparseCapture& sparse, int adjacent);

// The paper's own estimate (MoEtion section 2.5), first order: 1 / (1 + o) x 1 / (1 + E[R] / M).
double product_ettr(double overhead_share, double recovery_seconds, double mtbf_seconds);

// Nothing is saved: a job of `work` seconds is started again at every failure. M e^(R/M)
// (e^(work/M) - 1).
double expected_seconds_without_saves(double work_seconds, double recovery_seconds,
                                      double mtbf_seconds);

// The probability of exactly `count` of `nodes` independent events of this probability. 0 <= share
// <= 1.
double binomial(int nodes, int count, double share);

// Of `nodes` nodes that are up independently with probability `up`: at least `least` are. 0 <= up
// <= 1.
double at_least_up(int nodes, int least, double up);

}  // namespace evermoe
