// What unequal popularity of experts does to the order and the length of sparse windows, measured
// as the work that a catch-up runs again (MoEtion section 5.6 and appendix D, Fig. 13, 15 and 16).
//
// Popularity is drawn, the order and the window are the planner's own
// (protection/schedule/window_plan.h), the work of operators is operator_work()'s, scaled to the
// printed step time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "papers/paper_tables.h"
#include "planner/simulate/random_stream.h"
#include "protection/schedule/window_plan.h"

namespace evermoe {

// Shares of `experts` experts, drawn from the symmetric Dirichlet law. Precise for any alpha > 0:
// shares below the least double are 0.
std::vector<double> draw_popularity(double alpha, int experts, RandomStream& random);
// The alpha whose popularity has this expected skewness. REQUIRES: 0 < skewness < 1.
double alpha_of_skewness(double skewness, int experts);
// S of shares that sum to 1: the normalized Herfindahl-Hirschman index.
double skewness_of(const std::vector<double>& shares);

enum class SkewOrder { kIndex, kUnpopularFirst, kPopularFirst, kRatio };

// A stage of one of Table 2's models: two neighbouring layers with their experts.
class SkewedStage {
 public:
  // `model`: as in Table 3. `popularity`: by layer (two).
  SkewedStage(const PaperTables& tables, const std::string& model,
              const std::vector<std::vector<double>>& popularity);
  static int experts_of(const std::string& model);  // of a layer

  // The balanced window of the printed length in this order.
  Window window(SkewOrder order) const;
  // Share of the conversion's (W - 1) steps that frozen operators leave out.
  double saved_share(SkewOrder order) const;
  // The shortest window within the fitted bandwidth (kFittedWindowBandwidth); 0 for none.
  int shortest_window(SkewOrder order) const;
  // Seconds of a recovery without detection and restart. `skips`: frozen operators leave out their
  // weight gradients; `is_local`: only the failed stage catches up.
  double recovery_seconds(SkewOrder order, bool skips, bool is_local) const;

 private:
  CaptureOrder ordered(SkewOrder order) const;

  PaperModelInputs inputs_;
  std::vector<OperatorProfile> operators_;
  std::vector<double> popularity_;
  int64_t budget_bytes_ = 0;  // of a step
};

// Means over draws of DeepSeek-MoE's two layers at one skewness.
struct SkewRow {
  double skewness = 0;  // as asked for
  double drawn = 0;     // of the popularity drawn
  double saved_index = 0, saved_unpopular = 0, saved_popular = 0, saved_ratio = 0;
  int window_index = 0, window_unpopular = 0;         // shortest, the greatest of the draws
  double recovery_index = 0, recovery_unpopular = 0;  // seconds, localized
  double ettr_index = 0, ettr_unpopular = 0;          // at 10 minutes
  // Experts of a layer that get at least one of an iteration's tokens (Fig. 15): 512 sequences of
  // 2048 tokens, 8 choices each.
  double active = 0;
};
std::vector<SkewRow> study_skew(const PaperTables& tables, int draws);

// Fig. 13: ETTR at 10 minutes as techniques are added, at S = 0.25.
struct TechniqueRow {
  std::string model;
  double sparse = 0, skips = 0, reorders = 0, logs = 0;
};
std::vector<TechniqueRow> study_techniques(const PaperTables& tables, int draws);

}  // namespace evermoe
