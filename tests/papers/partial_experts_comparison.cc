#include "papers/partial_experts_comparison.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "planner/cost/stage_work.h"
#include "protection/partial_experts/partial_experts.h"
#include "protection/partial_experts/partial_saves.h"
#include "protection/partial_experts/state_sharding.h"

namespace evermoe {
namespace {

constexpr int kExperts = 8, kRanks = 8, kNodes = 2;
constexpr int64_t kTokens = 100;  // of an expert in a step

std::vector<int> one_expert_per_rank() {
  std::vector<int> owner_of(kExperts);
  std::iota(owner_of.begin(), owner_of.end(), 0);
  return owner_of;
}

// The parameters of a model as PEC's ranks divide them.
struct DividedModel {
  int layers = 0;                    // with experts
  int64_t expert = 0;                // of one
  int64_t dense = 0;                 // of all else
  std::vector<int64_t> modules;      // of all else
  std::vector<int64_t> zero_shards;  // of all else, by rank, as this runtime cuts operators
};

DividedModel divided(const ModelShape& shape) {
  DividedModel model{.zero_shards = std::vector<int64_t>(kRanks, 0)};
  for (const OperatorSpec& spec : model_operators(shape)) {
    if (spec.kind == OperatorKind::kExpert) {
      model.layers += spec.expert == 0;
      model.expert = spec.parameter_count();
      continue;
    }
    model.dense += spec.parameter_count();
    for (const ParameterSpec& parameter : spec.parameters)
      model.modules.push_back(parameter.numel());
    for (int rank = 0; rank < kRanks; ++rank)
      model.zero_shards[static_cast<size_t>(rank)] +=
          shard_range(spec.flat_size, kRanks, rank).size();
  }
  return model;
}

int64_t greatest(const std::vector<int64_t>& base, const std::vector<int64_t>& more) {
  int64_t result = 0;
  for (size_t rank = 0; rank < base.size(); ++rank)
    result = std::max(result, base[rank] + more[rank]);
  return result;
}

// Parameters of the experts that each rank writes in a save.
std::vector<int64_t> expert_loads(const LossySelection& selection, int64_t expert) {
  std::vector<int64_t> loads(kRanks, 0);
  for (const auto& layer : selection) {
    for (const int e : layer) loads[static_cast<size_t>(e)] += expert;
  }
  return loads;
}

// The members of a job that differ in what their memory holds: one for each node, whose lanes are
// alike.
class PlayedSaves {
 public:
  explicit PlayedSaves(const PartialRun& run) : run_(run) {
    for (int node = 0; node < kNodes; ++node) {
      members_.push_back(member());
      std::vector<bool> held(kExperts, false);
      for (int e = node * kExperts / kNodes; e < (node + 1) * kExperts / kNodes; ++e)
        held[static_cast<size_t>(e)] = true;
      held_.push_back(std::move(held));
    }
    save();
  }

  int64_t position() const { return position_; }

  void step() {
    const std::vector<int64_t> tokens(kExperts, kTokens);
    for (const auto& saves : members_) saves->add_step(tokens);
    if (++position_ % run_.every == 0) save();
  }

  void fail() {
    for (int node = 0; node < kNodes; ++node) {
      if (run_.whole_job || node == 0) members_[static_cast<size_t>(node)] = member();
    }
    std::vector<int64_t> agreed(kExperts, PartialSaves::kNotHeld);
    for (size_t node = 0; node < members_.size(); ++node) {
      const std::vector<int64_t> images = members_[node]->images_for(stored_.step, held_[node]);
      for (size_t e = 0; e < agreed.size(); ++e) agreed[e] = std::min(agreed[e], images[e]);
    }
    for (const auto& saves : members_) saves->restart(stored_, agreed);
    position_ = stored_.step.value;
  }

  PartialRunEnd end() const {
    const double tokens = static_cast<double>(run_.steps * kExperts * kTokens);
    return {static_cast<double>(members_[0]->lost()) / tokens, last_saved_};
  }

 private:
  std::unique_ptr<PartialSaves> member() const {
    return std::make_unique<PartialSaves>(
        PartialSavesOptions{.experts = kExperts,
                            .layers = 1,
                            .stage_layers = 1,
                            .owner_of = one_expert_per_rank(),
                            .lanes = kRanks,
                            .saved = run_.saved,
                            .in_memory = run_.in_memory,
                            .layer_tokens = run_.steps * kExperts * kTokens,
                            .plt_max = run_.plt_max});
  }

  void save() {
    const Step step(position_);
    for (const auto& saves : members_) {
      saves->take(step);
      const LossyTwoLevelSelection* chosen = saves->begin();
      CHECK(chosen != nullptr) << step;
      last_saved_ = static_cast<int>(chosen->persist[0].size());
      stored_ = {step, saves->stored(), saves->k().k, saves->k().lost_under_k};
      CHECK(saves->on_published(step));
    }
  }

  const PartialRun run_;
  std::vector<std::unique_ptr<PartialSaves>> members_;
  std::vector<std::vector<bool>> held_;
  StoredExperts stored_;
  int64_t position_ = 0;
  int last_saved_ = 0;
};

}  // namespace

ModelShape pec_model() {
  ModelShape shape = with_style({}, "gpt-moe").value();
  shape.vocabulary = 50304;  // GPT-2's 50,257, to a multiple of 64
  shape.sequence_length = 1024;
  shape.layers = 12;
  shape.hidden = 768;
  shape.heads = shape.kv_heads = 12;
  shape.head_dim = 64;
  shape.dense_hidden = shape.expert_hidden = 3072;
  shape.experts = kExperts;
  shape.top_k = 1;
  shape.moe_every = 2;
  return shape;
}

double partial_checkpoint_bytes(const ModelShape& shape, int saved) {
  const DividedModel model = divided(shape);
  CHECK(1 <= saved && saved <= shape.experts) << saved;
  return kOptimizerBytes * static_cast<double>(model.dense + saved * model.layers * model.expert);
}

RankLoads pec_rank_loads(int saved) {
  const DividedModel model = divided(pec_model());
  const std::vector<int> interleaved = interleaved_experts(one_expert_per_rank(), kRanks);
  const std::vector<int64_t> nothing(kRanks, 0);
  const std::vector<int64_t> equal = assign_modules(nothing, model.modules).rank_bytes;
  RankLoads loads{.whole = static_cast<double>(model.dense + model.layers * model.expert)};
  loads.partial_mean = static_cast<double>(model.dense) +
                       static_cast<double>(saved * model.layers * model.expert) / kRanks;
  for (int64_t cursor = 0; cursor < kExperts; ++cursor) {
    const std::vector<int64_t> experts =
        expert_loads(lossy_sequential(cursor, model.layers, saved, interleaved), model.expert);
    const ModuleAssignment adaptive = assign_modules(experts, model.modules);
    std::vector<int64_t> filled;
    for (const ByteRange& range : water_fill(experts, model.dense, 1))
      filled.push_back(range.size());
    auto raise = [](double& peak, int64_t load) {
      peak = std::max(peak, static_cast<double>(load));
    };
    raise(loads.equal_peak, greatest(experts, equal));
    raise(loads.adaptive_peak, greatest(nothing, adaptive.rank_bytes));
    raise(loads.zero_peak, greatest(experts, model.zero_shards));
    raise(loads.water_peak, greatest(experts, filled));
  }
  return loads;
}

PartialRunEnd play_partial_run(const PartialRun& run, const std::vector<int64_t>& faults) {
  PlayedSaves saves(run);
  for (const int64_t fault : faults) {
    while (saves.position() < fault) saves.step();
    saves.fail();
  }
  return saves.end();
}

double mean_plt(const PartialRun& run) {
  const int64_t cycle = run.every * kExperts / run.saved, begin = run.steps / 2 / cycle * cycle;
  double sum = 0;
  for (int64_t fault = begin; fault < begin + cycle; ++fault)
    sum += play_partial_run(run, {fault + 1}).plt;
  return sum / static_cast<double>(cycle);
}

}  // namespace evermoe
