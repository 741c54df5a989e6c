#include "papers/skew_study.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/check.h"
#include "papers/paper_comparison.h"
#include "planner/cost/cost_shape.h"
#include "planner/cost/operator_work.h"

namespace evermoe {
namespace {

constexpr int kLayers = 2;
constexpr double kTenMinutes = 600;
constexpr double kChoices = 512.0 * 2048 * 8;  // of an iteration, in a layer

ModelShape shape_of(const std::string& model) {
  static const std::map<std::string, std::string>& presets =
      *new std::map<std::string, std::string>{{"MoE-LLaVa", "moe-llava-2.9b-language"},
                                              {"GPT-MoE", "gpt-moe-7.3b"},
                                              {"QWen-MoE", "qwen1.5-moe-a2.7b"},
                                              {"DeepSeek-MoE", "deepseek-moe-16b"}};
  return preset(presets.at(model)).value();
}

// The last two layers: all of them have experts.
bool is_in_stage(const OperatorSpec& spec, const ModelShape& shape) {
  return spec.layer >= shape.layers - kLayers;
}

std::vector<std::vector<double>> draw_layers(double alpha, int experts, RandomStream& random) {
  std::vector<std::vector<double>> layers;
  for (int layer = 0; layer < kLayers; ++layer) {
    layers.push_back(alpha > 0 ? draw_popularity(alpha, experts, random)
                               : std::vector<double>(static_cast<size_t>(experts), 1.0 / experts));
  }
  return layers;
}

double ettr_of_recovery(const PaperModelInputs& inputs, double recovery_seconds) {
  const double overhead = 0.06 / inputs.step_seconds;  // Table 3 at 10M, DeepSeek-MoE
  return 1 / (1 + overhead) / (1 + recovery_seconds / kTenMinutes);
}

// Of the experts of a layer, those that get at least one of so many independent choices.
double expected_active(const std::vector<double>& shares) {
  double active = 0;
  for (const double share : shares) active -= std::expm1(kChoices * std::log1p(-share));
  return active;
}

}  // namespace

std::vector<double> draw_popularity(double alpha, int experts, RandomStream& random) {
  // Gamma(alpha) = Gamma(alpha + 1) U^(1 / alpha), in logarithms: for small alpha most are below
  // any double.
  std::vector<double> logs;
  for (int e = 0; e < experts; ++e)
    logs.push_back(std::log(random.gamma(alpha + 1)) + std::log(random.uniform()) / alpha);
  const double greatest = *std::max_element(logs.begin(), logs.end());
  std::vector<double> shares;
  for (const double log : logs) shares.push_back(std::exp(log - greatest));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

double alpha_of_skewness(double skewness, int experts) {
  CHECK(0 < skewness && skewness < 1) << skewness;
  return (1 / skewness - 1) / experts;
}

double skewness_of(const std::vector<double>& shares) {
  const double uniform = 1.0 / static_cast<double>(shares.size());
  const double index = std::inner_product(shares.begin(), shares.end(), shares.begin(), 0.0);
  return (index - uniform) / (1 - uniform);
}

SkewedStage::SkewedStage(const PaperTables& tables, const std::string& model,
                         const std::vector<std::vector<double>>& popularity)
    : inputs_(tables.inputs_of("Table 3", model)) {
  const ModelShape shape = shape_of(model);
  double seconds = 0, elements = 0;
  for (const OperatorSpec& spec : model_operators(shape)) {
    if (!is_in_stage(spec, shape) || spec.kind == OperatorKind::kHead) continue;
    const auto layer = static_cast<size_t>(spec.layer - (shape.layers - kLayers));
    double share = 1;  // of the tokens
    OperatorProfile profile;
    if (spec.kind == OperatorKind::kExpert) {
      const double popular = popularity[layer][static_cast<size_t>(spec.expert)];
      share = popular * static_cast<double>(shape.top_k);
      profile.expert = static_cast<int>(popularity_.size());
      popularity_.push_back(popular);
    }
    const OperatorWork work = operator_work(spec, shape);
    const auto size = static_cast<double>(spec.parameter_count());
    profile.cost = {static_cast<int64_t>(inputs_.active_bytes * size),
                    static_cast<int64_t>(inputs_.frozen_bytes * size)};
    profile.forward_seconds = share * (work.forward + work.input_gradient);
    profile.gradient_seconds = share * work.weight_gradient;
    seconds += profile.forward_seconds + profile.gradient_seconds;
    elements += size;
    operators_.push_back(profile);
  }
  for (OperatorProfile& profile : operators_) {
    profile.forward_seconds *= inputs_.step_seconds / seconds;
    profile.gradient_seconds *= inputs_.step_seconds / seconds;
  }
  budget_bytes_ = static_cast<int64_t>(inputs_.step_seconds * kFittedWindowBandwidth * elements /
                                       inputs_.parameters);
}

int SkewedStage::experts_of(const std::string& model) {
  return static_cast<int>(shape_of(model).experts);
}

CaptureOrder SkewedStage::ordered(SkewOrder order) const {
  switch (order) {
    case SkewOrder::kUnpopularFirst: return order_by_popularity(operators_, popularity_);
    case SkewOrder::kRatio: return order_by_ratio(operators_);
    case SkewOrder::kPopularFirst: {
      std::vector<double> reversed;
      for (const double popular : popularity_) reversed.push_back(-popular);
      return order_by_popularity(operators_, reversed);
    }
    case SkewOrder::kIndex:
      return order_by_popularity(operators_, std::vector<double>(popularity_.size(), 1));
  }
  return {};
}

Window SkewedStage::window(SkewOrder order) const {
  return balanced_window(costs_in_order(operators_, ordered(order)), inputs_.window);
}

double SkewedStage::saved_share(SkewOrder order) const {
  return frozen_seconds_saved(operators_, ordered(order), window(order)) /
         (inputs_.step_seconds * (inputs_.window - 1));
}

int SkewedStage::shortest_window(SkewOrder order) const {
  const auto found = minimal_window(costs_in_order(operators_, ordered(order)), budget_bytes_);
  const Window* window = std::get_if<Window>(&found);
  return window == nullptr ? 0 : window->length();
}

double SkewedStage::recovery_seconds(SkewOrder order, bool skips, bool is_local) const {
  RecoveryProfile recovery;
  if (is_local)
    recovery.stage_share =
        static_cast<double>(inputs_.rounds) / (inputs_.rounds + inputs_.stages - 1);
  std::vector<OperatorProfile> operators = operators_;
  for (OperatorProfile& profile : operators) {
    if (skips) break;
    profile.forward_seconds += profile.gradient_seconds;
    profile.gradient_seconds = 0;
  }
  return expected_recovery_seconds(operators, ordered(order), window(order), recovery);
}

std::vector<SkewRow> study_skew(const PaperTables& tables, int draws) {
  const std::string model = "DeepSeek-MoE";
  const int experts = SkewedStage::experts_of(model);
  const PaperModelInputs& inputs = tables.inputs_of("Table 3", model);
  std::vector<SkewRow> rows;
  for (const double skewness : {0.0, 0.25, 0.50, 0.75, 0.99}) {
    RandomStream random(1, static_cast<uint64_t>(100 * skewness));
    SkewRow row{.skewness = skewness};
    for (int draw = 0; draw < draws; ++draw) {
      const auto layers =
          draw_layers(skewness > 0 ? alpha_of_skewness(skewness, experts) : 0, experts, random);
      const SkewedStage stage(tables, model, layers);
      const double index = stage.recovery_seconds(SkewOrder::kIndex, true, true),
                   unpopular = stage.recovery_seconds(SkewOrder::kUnpopularFirst, true, true);
      auto add = [&](double& mean, double value) { mean += value / draws; };
      add(row.drawn, (skewness_of(layers[0]) + skewness_of(layers[1])) / 2);
      add(row.saved_index, stage.saved_share(SkewOrder::kIndex));
      add(row.saved_unpopular, stage.saved_share(SkewOrder::kUnpopularFirst));
      add(row.saved_popular, stage.saved_share(SkewOrder::kPopularFirst));
      add(row.saved_ratio, stage.saved_share(SkewOrder::kRatio));
      add(row.recovery_index, index);
      add(row.recovery_unpopular, unpopular);
      add(row.ettr_index, ettr_of_recovery(inputs, index));
      add(row.ettr_unpopular, ettr_of_recovery(inputs, unpopular));
      add(row.active, (expected_active(layers[0]) + expected_active(layers[1])) / 2);
      row.window_index = std::max(row.window_index, stage.shortest_window(SkewOrder::kIndex));
      row.window_unpopular =
          std::max(row.window_unpopular, stage.shortest_window(SkewOrder::kUnpopularFirst));
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<TechniqueRow> study_techniques(const PaperTables& tables, int draws) {
  std::vector<TechniqueRow> rows;
  for (const char* model : {"MoE-LLaVa", "GPT-MoE", "QWen-MoE", "DeepSeek-MoE"}) {
    const int experts = SkewedStage::experts_of(model);
    const PaperModelInputs& inputs = tables.inputs_of("Table 3", model);
    RandomStream random(2, 0);
    TechniqueRow row{.model = model};
    for (int draw = 0; draw < draws; ++draw) {
      const SkewedStage stage(tables, model,
                              draw_layers(alpha_of_skewness(0.25, experts), experts, random));
      auto add = [&](double& mean, SkewOrder order, bool skips, bool is_local) {
        mean += ettr_of_recovery(inputs, stage.recovery_seconds(order, skips, is_local)) / draws;
      };
      add(row.sparse, SkewOrder::kIndex, false, false);
      add(row.skips, SkewOrder::kIndex, true, false);
      add(row.reorders, SkewOrder::kUnpopularFirst, true, false);
      add(row.logs, SkewOrder::kUnpopularFirst, true, true);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace evermoe
