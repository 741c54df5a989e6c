// In which order the operators of a stage get their turn in a window, and when the order changes.
// Pure.
//
// It follows what the gates choose (MoEtion section 3.5 and appendix B): an expert that few tokens
// choose saves a catch-up little while it is frozen, so it comes early. Every lane of a stage feeds
// it the same counts and so holds the same order. Its state travels with the snapshots: a stage
// that goes back takes it up with the first slot of the window, and what it counts again is what it
// had counted.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "protection/schedule/popularity.h"
#include "protection/schedule/window_plan.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

enum class OrderBy : uint8_t {
  kExpectedCost,  // kPopularity or kRatio, whichever saves a catch-up more at the window's length
  kPopularity,    // tokens that chose an expert since the run began
  kSoft,          // the gates' probabilities instead
  kDecayed,       // tokens, mostly of late
  kCapacity,      // tokens over the lanes that hold the expert
  kRatio,         // work that is saved per byte, by the tokens counted
};

struct OrderingOptions {
  OrderBy by = OrderBy::kExpectedCost;
  double decay = 0.9;  // of kDecayed: the weight of the past
  ReorderOptions reorder;
};

class OperatorOrdering {
 public:
  OperatorOrdering(std::vector<StageOperator> operators, OrderingOptions options);

  // They are on other lanes now: the same operators, with other bytes of this rank.
  void set_operators(std::vector<StageOperator> operators);
  // Nothing has been counted: the order follows from the operators alone.
  void clear();
  void add_step(const ExpertLoads& loads);
  // The state at hand is the first of a window: takes a new order if the experts' popularity has
  // moved enough since the last one was made, and says why. Asked again in the same state it
  // changes nothing.
  std::optional<std::string> begin_window();

  // Whether what was counted has decided the order.
  bool is_counted() const { return ordered_by_.steps() > 0; }

  // How the stage captures its operators in windows of `slots` slots
  // (protection/schedule/window_plan.h): from the whole operators and what was counted, so the same
  // on every lane.
  StageWindow window(int slots) const;
  // In which slot each operator is captured in full then.
  std::vector<int> slots_of_operators(int slots) const;
  // What window() follows from, for whoever plans: the rule, and by expert what was counted; empty:
  // nothing yet.
  OrderRule rule() const;
  std::vector<double> popularity() const;
  // What a rank with shards of `bytes` knows of its operators; their seconds add up to
  // `step_seconds`.
  std::vector<OperatorProfile> profiles(double step_seconds,
                                        OperatorBytes StageOperator::*bytes) const;

  // As bytes of a fixed length.
  RecordBytes state() const;
  absl::Status set_state(std::span<const std::byte> state);  // Corrupt

 private:
  std::vector<double> measure(const Popularity& popularity) const;
  // Tokens of a step that add to the operator's gradients, counted where they were.
  double tokens_of(const StageOperator& op) const;

  std::vector<StageOperator> operators_;
  const OrderingOptions options_;
  const int experts_;
  Popularity counted_;
  Popularity ordered_by_;  // what was counted when the order was made; no steps: nothing yet
};

}  // namespace evermoe
