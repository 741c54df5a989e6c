// How long to train between two checkpoints that stop training while they are saved.
//
// Failures come as a Poisson process with the given mean time between them (M); a save takes C
// seconds, a restart R; a failure during a save or a restart costs what was done since, too. "Work"
// is training time between saves; a cycle is work and save. Chapter on checkpoint strategy, with
// the corrections of the exact law: its linear waste overstates beyond the optimum (4 h between
// saves at M = 2.1 h waste 67 %, not "more than 100 %"), and R does not move the optimum but
// belongs into the waste.
#pragma once

namespace evermoe {

struct IntervalCosts {
  double save_seconds = 0;     // C, > 0
  double mtbf_seconds = 0;     // M, > 0
  double restart_seconds = 0;  // R, >= 0: detect, restart, load
};

// Young: sqrt(2 C M). As the work between saves 5 % too long at C / M = 0.01, 43 % at 0.5.
double young_interval_seconds(const IntervalCosts& costs);

// Daly, first order: sqrt(2 C M) - C of work; 0 where that is negative (C > 2 M).
double daly_first_order_interval_seconds(const IntervalCosts& costs);

// Daly, higher order: sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C for C < 2 M, otherwise
// M. Within 0.04 % of the optimum up to C / M = 0.1, 0.55 % at 0.5.
double daly_higher_order_interval_seconds(const IntervalCosts& costs);

// The work between saves that maximises efficiency(): M (1 + W0(-exp(-1 - C / M))). Use this one.
double best_interval_seconds(const IntervalCosts& costs);

// 1 + W0(-exp(-1 - x)) for x > 0, W0 the upper branch of Lambert's function. In (0, 1).
double lambert_interval_factor(double x);

// The share of wall time that remains as training:
// work / (M e^(R / M) (e^((work + C) / M) - 1)), exact. REQUIRES: work_seconds > 0.
double efficiency(double work_seconds, const IntervalCosts& costs);

// The chapter's estimate of the share lost, C / tau + tau / 2M + R / M, tau the cycle. For
// comparison.
double linear_waste(double cycle_seconds, const IntervalCosts& costs);

// Mean time that a failure destroys, given that one comes within a cycle: M - cycle / (e^(cycle/M)
// - 1). Below half of the cycle.
double mean_lost_seconds(double cycle_seconds, double mtbf_seconds);

}  // namespace evermoe
