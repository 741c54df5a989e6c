#include "train/step/rank_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "config/job_topology.h"

namespace evermoe {

StateTypes state_types(const TrainConfig& train, at::Device device) {
  return {.stored = train_types(train), .device = device};
}

RankModel::RankModel(const JobConfig& config, const TrainerEnvironment& environment,
                     absl::Duration deadline, const BucketLimits& buckets)
    : config_(config),
      transport_(*environment.transport),
      deadline_(deadline),
      buckets_(buckets),
      topology_(topology_of(config)),
      role_(topology_.role_of(environment.transport->rank())),
      types_(state_types(config.train, environment.device)),
      membership_(topology_),
      deferred_(topology_.world_size() == 1 ? 0 : config.train.deferred_bytes) {
  CHECK(transport_.size() >= topology_.world_size()) << transport_.size() << " processes";
  batches_ = std::make_unique<BatchReader>(config_, environment.training, environment.validation,
                                           types_.device);
  if (config_.train.non_finite != NonFinitePolicy::kSkip) {
    watch_ = std::make_unique<OriginWatch>(config_.model, [this](const NonFinite& place) {
      if (meet_origin_) meet_origin_(place);
    });
  }
  view_ = environment.view;
  ExpertBalance balance;
  settle_balance(balance);
  placements_ = placements_by(membership_, balance);
  parts_ = new_parts(view_);
}

// ---- who trains

std::unique_ptr<RankModel::Parts> RankModel::new_parts(View view, OperatorStates former) {
  const std::optional<Role> place = membership_.place_of(transport_.rank());
  if (!place) return nullptr;
  const Topology& lanes = membership_.lanes();
  auto parts = std::make_unique<Parts>();
  const StageGroups groups = join_groups(view, *parts);
  parts->model =
      std::make_unique<StageModel>(config_.model, lanes, *place, placements_, groups, types_,
                                   config_.train.recompute, watch_.get(), std::move(former));
  parts->runner = new_runner(*place, *parts->model);
  parts->operators = parts->model->operators();
  for (OperatorState* const state : parts->operators) state->defer_gradients(deferred_);
  parts->stage_group->set_idle_work([this] { return do_idle_work(); });
  return parts;
}

std::unique_ptr<StageRunner> RankModel::new_runner(Role place, StageModel& model) const {
  auto runner = std::make_unique<StageRunner>(config_.train, membership_, place, *batches_, model,
                                              watch_.get());
  for (const auto& [begin, end] : poisoned_) runner->poison(begin, end);
  return runner;
}

StageGroups RankModel::join_groups(View view, Parts& parts) {
  uint16_t group = kFirstStageGroup;
  const std::vector<Rank> stage_ranks = membership_.stage_group(role_.stage);
  const int lane = membership_.place_of(transport_.rank())->lane;
  const auto join = [&](uint16_t number, const std::vector<Rank>& members) {
    return std::make_unique<Communicator>(transport_, members,
                                          CommunicatorOptions{view, number, deadline_});
  };
  parts.stage_group = join(group++, stage_ranks);
  parts.dense_group = join(group++, stage_ranks);
  // One communicator per distinct set of lanes, numbered in the order of the sets, so that the
  // members of each agree on its number without talking.
  std::map<std::vector<int>, Communicator*> by_lanes;
  for (const auto& [layer, placement] : placements_) {
    for (int expert = 0; expert < placement.experts(); ++expert)
      by_lanes[placement.lanes_of(expert)] = nullptr;
  }
  for (auto& [lane_set, communicator] : by_lanes) {
    const uint16_t number = group++;
    if (std::find(lane_set.begin(), lane_set.end(), lane) == lane_set.end()) continue;
    std::vector<Rank> members;
    for (const int member : lane_set) members.push_back(stage_ranks[static_cast<size_t>(member)]);
    parts.expert_groups.push_back(join(number, members));
    communicator = parts.expert_groups.back().get();
  }
  CHECK(kStageGroups.contains(group) && group < kMoveGroups.first) << "too many groups of experts";
  StageGroups groups{parts.stage_group.get(), parts.dense_group.get(), {}};
  for (const auto& [layer, placement] : placements_) {
    std::vector<Communicator*>& owners = groups.expert_owners[layer];
    for (int expert = 0; expert < placement.experts(); ++expert)
      owners.push_back(by_lanes[placement.lanes_of(expert)]);
  }
  return groups;
}

// ---- faults

void RankModel::corrupt_result() {
  if (!rests()) parts_->runner->corrupt_result();
}

void RankModel::poison(int64_t begin, int64_t end) {
  poisoned_.emplace_back(begin, end);
  if (!rests()) parts_->runner->poison(begin, end);
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
  view_ = view;
  if (rests()) return;
  parts_->stage_group->restart(view);
  parts_->dense_group->restart(view);
  for (const auto& group : parts_->expert_groups) group->restart(view);
}

absl::StatusOr<StepFindings> RankModel::accumulate_gradients(
    const TrainingPosition& position, Boundary& boundary, bool probes,
    const GradientReduction::OnReduced& on_reduced) {
  StepFindings findings;
  if (rests()) return findings;
  const absl::Cleanup forget = [this] { deferred_.clear(); };  // of a step that fails on its way
  RETURN_IF_ERROR(guard([&]() -> absl::Status {
    std::vector<at::Tensor> gradients;
    for (const OperatorState* state : operators()) {
      if (!state->is_frozen()) gradients.push_back(state->gradient());
    }
    if (!gradients.empty()) at::_foreach_zero_(gradients);
    GradientReduction::BeforeSum watch;
    if (watch_ != nullptr) {
      watch_->begin_step();
      watch = [this](const OperatorState& state) {
        if (!state.is_frozen()) watch_->add_gradient(state.gradient(), state.spec().name);
      };
    }
    GradientReduction reduction(operators(), deferred_, buckets_, on_reduced, watch);
    findings = parts_->runner->run_step(position, probes, boundary,
                                        [&](size_t first) { reduction.add_up_to(first); });
    reduction.run_deferred();
    fault_point("step/accumulated");
    RETURN_IF_ERROR(reduction.finish());
    findings.gradient_square_sum = gradient_square_sum(operators());
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
  for (OperatorState* const state : operators()) {
    if (phase == NonFinitePhase::kWeightGradient && state->is_frozen()) continue;
    for (const at::Tensor& tensor : tensors_of(*state)) {
      if (!is_finite(tensor)) log.add(phase, -1, state->spec().name);
    }
  }
  return log.first();
}

absl::StatusOr<ExpertLoads> RankModel::expert_loads() {
  if (rests()) return ExpertLoads{};
  ExpertLoads loads = parts_->runner->expert_loads();
  if (parts_->stage_group->size() == 1 || loads.tokens.empty()) return loads;
  // Numbers of tokens are exact in FP64, and one message is faster than two.
  const size_t experts = loads.tokens.size();
  std::vector<double> sums(loads.tokens.begin(), loads.tokens.end());
  sums.insert(sums.end(), loads.probability.begin(), loads.probability.end());
  RETURN_IF_ERROR(annotate(parts_->stage_group->all_reduce<double>(std::span(sums), ReduceOp::kSum),
                           "loads of experts"));
  for (size_t i = 0; i < experts; ++i) loads.tokens[i] = static_cast<int64_t>(sums[i]);
  loads.probability.assign(sums.begin() + static_cast<std::ptrdiff_t>(experts), sums.end());
  return loads;
}

absl::StatusOr<StepFindings> RankModel::evaluate(int64_t first, int64_t micro_batches,
                                                 Boundary& boundary) {
  StepFindings findings;
  if (rests()) return findings;
  RETURN_IF_ERROR(guard([&] {
    findings = parts_->runner->run_validation(first, micro_batches, boundary);
    return absl::OkStatus();
  }));
  return findings;
}

std::vector<std::vector<OperatorState*>> RankModel::update_batches() const {
  // So many parameters are updated by one launch of a kernel, which costs a GPU as much as a small
  // operator's update. On a CPU an operator's state stays in its cache between update and cast.
  const int64_t batch_max = types_.device.is_cpu() ? 0 : int64_t{1} << 26;
  std::vector<std::vector<OperatorState*>> batches;
  int64_t size = 0;
  for (OperatorState* const state : operators()) {
    size += state->shard().size();
    if (batches.empty() || size > batch_max) {
      batches.emplace_back();
      size = state->shard().size();
    }
    batches.back().push_back(state);
  }
  return batches;
}

absl::Status RankModel::update_shards(const std::vector<OperatorState*>& batch,
                                      const AdamW& optimizer, const BeforeUpdate& before_write) {
  absl::Status status;
  std::vector<OperatorRange> ranges;
  for (OperatorState* const state : batch) {
    for (const FlatRange range : state->active()) {
      if (status.ok()) status = before_write(*state, range);
      if (status.ok()) ranges.push_back({state, range});
    }
  }
  optimizer.update(ranges);
  cast_masters(ranges);
  return status;
}

absl::Status RankModel::update_own(const StepRecord& record, int64_t updates_applied,
                                   const BeforeUpdate& before_write) {
  return guard([&]() -> absl::Status {
    const AdamW optimizer(config_.train, record, updates_applied, types_.device);
    for (const auto& batch : update_batches())
      RETURN_IF_ERROR(update_shards(batch, optimizer, before_write));
    return absl::OkStatus();
  });
}

absl::Status RankModel::update(const StepRecord& record, int64_t updates_applied,
                               const BeforeUpdate& before_write) {
  if (rests()) return absl::OkStatus();
  return guard([&]() -> absl::Status {
    const AdamW optimizer(config_.train, record, updates_applied, types_.device);
    BucketedExchange gather(BucketedExchange::Kind::kGatherCompute, operators(), buckets_);
    for (const auto& batch : update_batches()) {
      RETURN_IF_ERROR(update_shards(batch, optimizer, before_write));
      for (OperatorState* const state : batch) {
        if (state->owners().size() == 1 && !state->is_frozen()) state->show_compute();
        gather.add_ready();
      }
      gather.advance();  // an error comes later: every shard gets to the new position
    }
    fault_point("step/updated");
    return gather.finish();
  });
}

absl::Status RankModel::derive_compute(const std::vector<OperatorState*>& some) {
  return guard([&]() -> absl::Status {
    for (OperatorState* const state : some) {
      state->cast_master();
      RETURN_IF_ERROR(state->gather_compute());
    }
    return absl::OkStatus();
  });
}

}  // namespace evermoe
