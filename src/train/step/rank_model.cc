#include "train/step/rank_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "config/job_topology.h"

namespace evermoe {

StateTypes state_types(const TrainConfig& train) { return {.stored = train_types(train)}; }

RankModel::RankModel(const JobConfig& config, const TrainerEnvironment& environment,
                     absl::Duration deadline, const BucketLimits& buckets)
    : config_(config),
      buckets_(buckets),
      topology_(topology_of(config)),
      role_(topology_.role_of(environment.transport->rank())),
      types_(state_types(config.train)),
      deferred_(topology_.world_size() == 1 ? 0 : config.train.deferred_bytes) {
  CHECK(environment.transport->size() == topology_.world_size())
      << environment.transport->size() << " processes";
  const ExpertPlacement placement = expert_placement_of(config, topology_.lanes(role_.stage));
  const StageGroups groups = join_groups(placement, environment, deadline);
  batches_ = std::make_unique<BatchReader>(config_, environment.training, environment.validation,
                                           types_.device);
  if (config_.train.non_finite != NonFinitePolicy::kSkip) {
    watch_ = std::make_unique<OriginWatch>(config_.model, [this](const NonFinite& place) {
      if (meet_origin_) meet_origin_(place);
    });
  }
  model_ = std::make_unique<StageModel>(config_.model, topology_, role_, placement, groups, types_,
                                        config_.train.recompute, watch_.get());
  runner_ = std::make_unique<StageRunner>(config_.train, topology_, role_, *batches_, *model_,
                                          watch_.get());
  operators_ = model_->operators();
  for (OperatorState* const state : operators_) state->defer_gradients(deferred_);
  stage_group_->set_idle_work([this] { return do_idle_work(); });
}

StageGroups RankModel::join_groups(const ExpertPlacement& placement,
                                   const TrainerEnvironment& environment, absl::Duration deadline) {
  uint16_t group = kFirstStageGroup;
  const std::vector<Rank> stage_ranks = topology_.stage_group(role_.stage);
  const auto join = [&](uint16_t number, const std::vector<Rank>& members) {
    return std::make_unique<Communicator>(*environment.transport, members,
                                          CommunicatorOptions{environment.view, number, deadline});
  };
  stage_group_ = join(group++, stage_ranks);
  dense_group_ = join(group++, stage_ranks);
  // One communicator per distinct set of lanes, numbered in the order of the sets, so that the
  // members of each agree on its number without talking.
  std::map<std::vector<int>, Communicator*> by_lanes;
  for (int expert = 0; expert < placement.experts(); ++expert)
    by_lanes[placement.lanes_of(expert)] = nullptr;
  for (auto& [lane_set, communicator] : by_lanes) {
    const uint16_t number = group++;
    if (std::find(lane_set.begin(), lane_set.end(), role_.lane) == lane_set.end()) continue;
    std::vector<Rank> members;
    for (const int lane : lane_set) members.push_back(stage_ranks[static_cast<size_t>(lane)]);
    expert_groups_.push_back(join(number, members));
    communicator = expert_groups_.back().get();
  }
  CHECK(kStageGroups.contains(group)) << "too many groups of experts";
  StageGroups groups{stage_group_.get(), dense_group_.get(), {}};
  for (int expert = 0; expert < placement.experts(); ++expert) {
    groups.expert_owners.push_back(by_lanes[placement.lanes_of(expert)]);
  }
  return groups;
}

absl::StatusOr<std::unique_ptr<RankModel>> RankModel::create(const JobConfig& config,
                                                             const TrainerEnvironment& environment,
                                                             absl::Duration deadline,
                                                             const BucketLimits& buckets) {
  const int64_t length = config.model.sequence_length;
  if (window_count(environment.training.size(), length) < 1 ||
      window_count(environment.validation.size(), length) < 1) {
    return InvalidInput(absl::StrCat("data.path: ", environment.training.size(), " training and ",
                                     environment.validation.size(),
                                     " validation tokens, but one sequence needs ", length + 1));
  }
  std::unique_ptr<RankModel> model;
  RETURN_IF_ERROR(guard([&] {
    model.reset(new RankModel(config, environment, deadline, buckets));
    return absl::OkStatus();
  }));
  return model;
}

void RankModel::join(View view) {
  stage_group_->restart(view);
  dense_group_->restart(view);
  for (const auto& group : expert_groups_) group->restart(view);
}

absl::StatusOr<StepFindings> RankModel::accumulate_gradients(
    const TrainingPosition& position, Boundary& boundary, bool probes,
    const GradientReduction::OnReduced& on_reduced) {
  StepFindings findings;
  const absl::Cleanup forget = [this] { deferred_.clear(); };  // of a step that fails on its way
  RETURN_IF_ERROR(guard([&]() -> absl::Status {
    for (OperatorState* state : operators_) {
      if (!state->is_frozen()) state->clear_gradients();
    }
    GradientReduction::BeforeSum watch;
    if (watch_ != nullptr) {
      watch_->begin_step();
      watch = [this](const OperatorState& state) {
        if (!state.is_frozen()) watch_->add_gradient(state.gradient(), state.spec().name);
      };
    }
    GradientReduction reduction(operators_, deferred_, buckets_, on_reduced, watch);
    findings = runner_->run_step(position, probes, boundary,
                                 [&](size_t first) { reduction.add_up_to(first); });
    reduction.run_deferred();
    fault_point("step/accumulated");
    RETURN_IF_ERROR(reduction.finish());
    findings.gradient_square_sum = gradient_square_sum(operators_);
    return absl::OkStatus();
  }));
  if (!std::isfinite(findings.gradient_square_sum)) {
    const auto gradients = [](OperatorState& state) {
      return std::vector<at::Tensor>{state.shard_gradient()};
    };
    findings.non_finite =
        std::min(findings.non_finite, first_non_finite(NonFinitePhase::kWeightGradient, gradients));
  }
  return findings;
}

int64_t RankModel::non_finite_state() const {
  return first_non_finite(NonFinitePhase::kState, [](OperatorState& state) {
    return std::vector<at::Tensor>{widened(state.master()), widened(state.exp_avg()),
                                   widened(state.exp_avg_sq())};
  });
}

int64_t RankModel::first_non_finite(NonFinitePhase phase, const TensorsOf& tensors_of) const {
  NonFiniteLog log(config_.model);
  for (OperatorState* const state : operators_) {
    if (phase == NonFinitePhase::kWeightGradient && state->is_frozen()) continue;
    for (const at::Tensor& tensor : tensors_of(*state)) {
      if (!is_finite(tensor)) log.add(phase, -1, state->spec().name);
    }
  }
  return log.first();
}

absl::StatusOr<ExpertLoads> RankModel::expert_loads() {
  ExpertLoads loads = runner_->expert_loads();
  if (stage_group_->size() == 1 || loads.tokens.empty()) return loads;
  // Numbers of tokens are exact in FP64, and one message is faster than two.
  const size_t experts = loads.tokens.size();
  std::vector<double> sums(loads.tokens.begin(), loads.tokens.end());
  sums.insert(sums.end(), loads.probability.begin(), loads.probability.end());
  RETURN_IF_ERROR(annotate(stage_group_->all_reduce<double>(std::span(sums), ReduceOp::kSum),
                           "loads of experts"));
  for (size_t i = 0; i < experts; ++i) loads.tokens[i] = static_cast<int64_t>(sums[i]);
  loads.probability.assign(sums.begin() + static_cast<std::ptrdiff_t>(experts), sums.end());
  return loads;
}

absl::StatusOr<StepFindings> RankModel::evaluate(int64_t first, int64_t micro_batches,
                                                 Boundary& boundary) {
  StepFindings findings;
  RETURN_IF_ERROR(guard([&] {
    findings = runner_->run_validation(first, micro_batches, boundary);
    return absl::OkStatus();
  }));
  return findings;
}

absl::Status RankModel::update_shard(OperatorState& state, const AdamW& optimizer,
                                     const BeforeUpdate& before_write) {
  for (const FlatRange range : state.active()) {
    RETURN_IF_ERROR(before_write(state, range));
    optimizer.update(state, range);
    state.cast_master(range);
  }
  return absl::OkStatus();
}

absl::Status RankModel::update_own(const StepRecord& record, int64_t updates_applied,
                                   const BeforeUpdate& before_write) {
  return guard([&]() -> absl::Status {
    const AdamW optimizer(config_.train, record, updates_applied, types_.device);
    for (OperatorState* state : operators_)
      RETURN_IF_ERROR(update_shard(*state, optimizer, before_write));
    return absl::OkStatus();
  });
}

absl::Status RankModel::update(const StepRecord& record, int64_t updates_applied,
                               const BeforeUpdate& before_write) {
  return guard([&]() -> absl::Status {
    const AdamW optimizer(config_.train, record, updates_applied, types_.device);
    BucketedExchange gather(BucketedExchange::Kind::kGatherCompute, operators_, buckets_);
    for (OperatorState* state : operators_) {
      RETURN_IF_ERROR(update_shard(*state, optimizer, before_write));
      if (state->owners().size() == 1 && !state->is_frozen()) state->show_compute();
      gather.add_ready();
      gather.advance();  // an error comes later: every shard gets to the new position
    }
    fault_point("step/updated");
    return gather.finish();
  });
}

absl::Status RankModel::derive_compute() {
  return guard([&]() -> absl::Status {
    for (OperatorState* state : operators_) {
      state->cast_master();
      RETURN_IF_ERROR(state->gather_compute());
    }
    return absl::OkStatus();
  });
}

}  // namespace evermoe
