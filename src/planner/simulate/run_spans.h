// The spans of a run, written while it is played: run_simulation.h.
#pragma once

#include <vector>

#include "planner/simulate/run_simulation.h"

namespace evermoe {

class RunSpans {
 public:
  // Into `spans`, which must live longer; null: nothing is kept.
  explicit RunSpans(std::vector<RunSpan>* spans) : spans_(spans) {}

  // From where the last span ended. `trained_seconds`: by the clock of training, of a span of
  // training. Spans of one kind become one.
  void add(RunSpan::Kind kind, double end_seconds, double trained_seconds = 0);

  // The last so many seconds of training, by its clock, were undone.
  void lose(double trained_seconds);

 private:
  std::vector<RunSpan>* spans_;
  std::vector<double> trained_;  // by span
};

}  // namespace evermoe
