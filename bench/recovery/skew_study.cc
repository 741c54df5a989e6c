// What the skew of experts' popularity does to the order of captures (MoEtion, appendix on skew):
// how much of a catch-up's work is saved because operators are frozen until their slot comes.
//
// The runtime's own ordering (recovery/plan/operator_ordering.h) counts what the runtime's synthetic
// routing draws (experts/load/synthetic_routing.h), step after step, and makes windows of W slots
// back to back. For each window the W - 1 steps in which a catch-up has frozen operators are priced
// by what tokens really chose in them: forward, gradients of inputs and of weights cost a
// parameter as much per token each, an update as much as 32 tokens. No process runs: the numbers are
// the same on every machine.
//
//   work     of those steps, in per cent of the same steps with nothing frozen: lower is better.
//            Mean over windows and seeds
//   skew     normalised HHI of the tokens' choices, of what was asked for
//
//   build/skew_study [--json]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "experts/load/synthetic_routing.h"
#include "model/model_shape.h"
#include "recovery/plan/operator_ordering.h"

namespace evermoe {
namespace {

constexpr double kSkews[] = {0, 0.25, 0.5, 0.75};
struct NamedOrder {
  const char* name;
  OrderBy by;
};
constexpr NamedOrder kOrders[] = {
    {"popularity", OrderBy::kPopularity}, {"soft", OrderBy::kSoft},
    {"decayed", OrderBy::kDecayed},       {"capacity", OrderBy::kCapacity},
    {"ratio", OrderBy::kRatio},           {"auto", OrderBy::kExpectedCost}};
// As the trainer prices an update (train/state/operator_shards.cc).
constexpr double kUpdateTokens = 32;

struct Study {
  std::string preset = "deepseek-moe-16b";
  int layers = 3;  // of the stage
  int window = 6;
  int windows = 40;
  int seeds = 5;
  int64_t tokens = 65536;  // of a step
  int64_t drift_windows = 0;
};

// The middle of a model: layers of experts, without embedding and head.
ModelShape stage_shape(ModelShape shape, const Study& study) {
  shape.layers = study.layers;
  shape.dense_first_layers = 0;
  shape.moe_every = 1;
  return shape;
}

std::vector<StageOperator> operators_of(const ModelShape& shape, int64_t tokens) {
  std::vector<StageOperator> operators;
  int experts = 0;
  for (const OperatorSpec& spec : model_operators(shape)) {
    if (spec.layer < 0) continue;
    const bool is_expert = spec.kind == OperatorKind::kExpert;
    StageOperator op{.name = spec.name};
    op.whole = op.bytes = {12 * spec.flat_size, 2 * spec.flat_size, 4 * spec.flat_size};
    op.expert = is_expert ? experts++ : -1;
    op.tokens = static_cast<double>(is_expert ? tokens * shape.top_k / shape.experts : tokens);
    op.update_tokens = kUpdateTokens;
    operators.push_back(op);
  }
  return operators;
}

SyntheticRouting routing_of(const ModelShape& shape, const Study& study, double skew,
                            uint64_t seed) {
  return {.seed = seed,
          .experts = static_cast<int>(shape.experts),
          .top_k = static_cast<int>(shape.top_k),
          .skew = skew,
          .drift_steps = study.drift_windows * study.window};
}

// What all layers choose in a step, by expert of the stage.
ExpertLoads loads_of(const ModelShape& shape, const Study& study, const SyntheticRouting& routing,
                     Step step) {
  ExpertLoads loads;
  for (int layer = 0; layer < study.layers; ++layer) {
    const std::vector<double> popularity = synthetic_popularity(routing, layer, step);
    std::vector<int64_t> counts(static_cast<size_t>(shape.experts));
    // A share of the tokens is drawn, which is as skewed.
    const int64_t drawn = std::min<int64_t>(study.tokens, 4096);
    for (const int64_t expert :
         synthetic_choices(routing, layer, step, MicroBatch(0), drawn, popularity))
      counts[static_cast<size_t>(expert)] += study.tokens / drawn;
    loads.tokens.insert(loads.tokens.end(), counts.begin(), counts.end());
    for (const double share : popularity)
      loads.probability.push_back(share * static_cast<double>(study.tokens));
  }
  return loads;
}

// Of one step: the share of the whole work that is done where operators from slot `first_frozen` on
// are frozen.
double share_of_work(const std::vector<StageOperator>& operators, const std::vector<int>& slot_of,
                     const ExpertLoads& loads, int first_frozen) {
  double done = 0, whole = 0;
  for (size_t i = 0; i < operators.size(); ++i) {
    const StageOperator& op = operators[i];
    const double tokens = op.expert < 0
                              ? op.tokens
                              : static_cast<double>(loads.tokens[static_cast<size_t>(op.expert)]);
    const auto size = static_cast<double>(op.whole.full);
    const double always = 2 * tokens * size, if_active = (tokens + op.update_tokens) * size;
    whole += always + if_active;
    done += always + (slot_of[i] < first_frozen ? if_active : 0);
  }
  return done / whole;
}

struct Cell {
  double work = 0, skew = 0;
  int reorderings = 0;
};

void run_seed(const Study& study, const ModelShape& shape, const SyntheticRouting& routing,
              OrderBy by, Cell& sum, int& steps, int& priced) {
  OrderingOptions options;
  options.by = by;
  const std::vector<StageOperator> operators = operators_of(shape, study.tokens);
  OperatorOrdering ordering(operators, options);
  for (int window = 0; window < study.windows; ++window) {
    sum.reorderings += ordering.begin_window().has_value();
    const std::vector<int> slot_of = ordering.slots_of_operators(study.window);
    for (int slot = 0; slot < study.window; ++slot, ++steps) {
      const ExpertLoads loads =
          loads_of(shape, study, routing, Step(int64_t{window} * study.window + slot));
      const auto first_layer = std::span(loads.tokens).first(static_cast<size_t>(shape.experts));
      sum.skew += normalised_hhi(first_layer);
      ordering.add_step(loads);
      // The last step of a window is run with everything active, and the first window has no
      // counts yet.
      if (slot + 1 == study.window || window == 0) continue;
      sum.work += share_of_work(operators, slot_of, loads, slot + 1);
      ++priced;
    }
  }
}

Cell run_cell(const Study& study, const ModelShape& shape, double skew, OrderBy by) {
  Cell cell;
  int steps = 0, priced = 0;
  for (int seed = 1; seed <= study.seeds; ++seed)
    run_seed(study, shape, routing_of(shape, study, skew, static_cast<uint64_t>(seed)), by, cell,
             steps, priced);
  cell.work /= priced;
  cell.skew /= steps;
  return cell;
}

int run(int argc, char** argv) {
  Study study;
  bool as_json = false;
  CLI::App app("the order of captures under skewed popularity");
  app.add_option("--preset", study.preset, "whose layers the stage has");
  app.add_option("--layers", study.layers, "of the stage")->check(CLI::PositiveNumber);
  app.add_option("--window", study.window, "slots")->check(CLI::Range(2, 64));
  app.add_option("--windows", study.windows, "of a run")->check(CLI::Range(2, 100000));
  app.add_option("--seeds", study.seeds, "runs")->check(CLI::PositiveNumber);
  app.add_option("--drift-windows", study.drift_windows, "popularity changes so often; 0: never");
  app.add_flag("--json", as_json, "one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<ModelShape> whole = preset(study.preset);
  if (!whole.ok()) {
    std::fprintf(stderr, "--preset: %s\n", std::string(whole.status().message()).c_str());
    return exit_code(whole.status());
  }
  const ModelShape shape = stage_shape(*whole, study);
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  if (!as_json)
    std::printf("%-12s %8s %8s %12s %12s\n", "ordering", "S", "skew", "work", "new orders");
  for (const double skew : kSkews) {
    for (const NamedOrder& order : kOrders) {
      const Cell cell = run_cell(study, shape, skew, order.by);
      cells.push_back({{"ordering", order.name},
                       {"routing_skew", skew},
                       {"measured_skew", cell.skew},
                       {"work_percent", 100 * cell.work},
                       {"reorderings", cell.reorderings}});
      if (as_json) continue;
      std::printf("%-12s %8.2f %8.3f %11.2f%% %12d\n", order.name, skew, cell.skew, 100 * cell.work,
                  cell.reorderings);
      std::fflush(stdout);
    }
  }
  if (!as_json) return 0;
  const nlohmann::ordered_json result = {{"benchmark", "skew_study"},
                                         {"preset", study.preset},
                                         {"layers", study.layers},
                                         {"window", study.window},
                                         {"windows", study.windows},
                                         {"seeds", study.seeds},
                                         {"drift_windows", study.drift_windows},
                                         {"results", cells}};
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) { return evermoe::run(argc, argv); }
