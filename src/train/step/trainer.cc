#include "train/step/trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "config/job_strategy.h"
#include "config/job_topology.h"
#include "env/clock.h"
#include "experts/load/synthetic_routing.h"
#include "experts/placement/rank_state.h"

namespace evermoe {
namespace {

bool is_due(Step step, int64_t every) { return every > 0 && step.value % every == 0; }

}  // namespace

Trainer::Trainer(const TrainerEnvironment& environment, TrainerOptions options,
                 std::unique_ptr<RankModel> model)
    : environment_(environment),
      options_(std::move(options)),
      model_(std::move(model)),
      durable_(environment, *model_),
      shards_(new_shards()),
      capture_memory_(environment_.device.is_cpu()
                          ? nullptr
                          : std::make_unique<CopyMemory>(environment_.device)) {
  model_->settle_balance(position_.experts);
  if (strategy_of(model_->config()).tunes_saves)
    pace_.emplace(model_->config().protection.overhead_budget);
  if (strategy_of(model_->config()).saves_few_experts) {
    partial_.emplace(model_->config(), model_->topology(), model_->role(), model_->operators());
  }
  if (model_->config().train.non_finite == NonFinitePolicy::kSkip) return;
  examiner_.emplace(environment_, model_->config().model,
                    model_->topology().name_of(environment_.transport->rank()));
  model_->set_meet_origin([this](const NonFinite& place) { meet_origin(place); });
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::create(const JobConfig& config,
                                                         const TrainerEnvironment& environment,
                                                         TrainerOptions options) {
  ASSIGN_OR_RETURN(auto model,
                   RankModel::create(config, environment, options.stage_deadline, options.buckets));
  return std::unique_ptr<Trainer>(new Trainer(environment, std::move(options), std::move(model)));
}

OperatorShards Trainer::new_shards() const {
  return {model_->config(), model_->types(),
          operators_of_stage(model_->config().model, model_->topology(), model_->role().stage),
          model_->placements(), model_->operators()};
}

int64_t Trainer::boundary_bytes() const {
  const JobConfig& config = model_->config();
  const int64_t message = config.train.micro_batch_size * config.model.sequence_length *
                          config.model.hidden * element_bytes(model_->types().stored.activations);
  return message * boundary_messages(model_->membership().lanes(), model_->role().stage,
                                     config.train.micro_batches);
}

// ---- steps

absl::StatusOr<Findings> Trainer::train(const ActiveOperators& active, Boundary& boundary,
                                        const OnReduced& on_reduced) {
  RETURN_IF_ERROR(std::exchange(file_status_, absl::OkStatus()));
  step_began_ = real_clock().now();
  RETURN_IF_ERROR(durable_.look_after_saves());
  shards_.set_active(active);
  const double worked = model_->work();
  ASSIGN_OR_RETURN(StepFindings findings,
                   model_->accumulate_gradients(
                       position_, boundary, skipped_in_row_ > 0, [&](const OperatorState& state) {
                         for (const int part : shards_.active_parts_of(state)) on_reduced(part);
                       }));
  work_ = model_->work() - worked;
  ASSIGN_OR_RETURN(expert_loads_, model_->expert_loads());
  findings.prepared = prepared();
  findings.prepared_locally = durable_.local().prepared();
  findings.drain = options_.drain_requested();
  findings.non_finite = std::min(findings.non_finite, non_finite_state_);
  if (pace_) {
    follow_save();
    findings.save_interval = pace_->vote(Step(position_.step.value + 1));
    findings.last_save = pace_->last();
  }
  if (partial_) {
    findings.refused = durable_.refused();
    if (environment_.transport->rank() == Rank(0)) findings.published = published();
  }
  if (examiner_) {
    const int32_t reproduced = examiner_->reproduced_micro_batch(Step(position_.step.value + 1));
    if (reproduced >= 0) findings.poisoned = reproduced;
  }
  add_choices(findings);
  return as_findings(std::move(findings));
}

void Trainer::add_choices(StepFindings& findings) const {
  const ModelShape& shape = model_->config().model;
  const Topology& topology = model_->topology();
  const Role role = model_->role();
  const auto experts = static_cast<size_t>(shape.experts);
  std::span<const int64_t> loads = expert_loads_.tokens;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    if (!shape.is_moe_layer(layer)) continue;
    findings.routing_skew.push_back(0);
    findings.expert_tokens.resize(findings.routing_skew.size() * experts);
    const bool is_here =
        topology.first_layer(role.stage) <= layer && layer < topology.first_layer(role.stage + 1);
    if (!is_here || role.lane != 0) continue;
    findings.routing_skew.back() = normalised_hhi(loads.first(experts));
    std::ranges::copy(loads.first(experts),
                      findings.expert_tokens.end() - static_cast<std::ptrdiff_t>(experts));
    loads = loads.subspan(experts);
  }
}

Findings Trainer::as_findings(StepFindings findings) const {
  const ModelShape& shape = model_->config().model;
  findings.routing_skew.resize(moe_layers());
  const bool counts = evermoe::moves_experts(model_->config());
  findings.expert_tokens.resize(counts ? moe_layers() * static_cast<size_t>(shape.experts) : 0);
  return to_findings(findings);
}

size_t Trainer::moe_layers() const {
  const ModelShape& shape = model_->config().model;
  return static_cast<size_t>(shape.moe_layers_before(shape.layers));
}

absl::Status Trainer::apply(const Findings& combined, const ActiveOperators& active,
                            const BeforeWrite& before_write) {
  RETURN_IF_ERROR(apply(combined, active, before_write, Gathers::kNow));
  if (pace_) pace_->on_step(real_clock().now() - step_began_);
  return absl::OkStatus();
}

absl::Status Trainer::apply_alone(const Findings& combined, const BeforeWrite& before_write) {
  return apply(combined, ActiveOperators(operators().size(), true), before_write, Gathers::kLater);
}

absl::Status Trainer::apply(const Findings& combined, const ActiveOperators& active,
                            const BeforeWrite& before_write, Gathers gathers) {
  const TrainConfig& train = model_->config().train;
  shards_.set_active(active);
  const StepFindings found = from_findings(combined, moe_layers());
  record_ = decide(found, train, position_);
  // First, because what follows can fail: a state that is half gathered has all its shards at the
  // new position.
  note_step(position_.step, model_->membership().lanes(), position_.trained_on);
  position_ = advance(position_, record_, train);
  count_step(position_.experts, found.expert_tokens, balance_options(model_->config()));
  skipped_in_row_ = skipped_in_row(skipped_in_row_, record_, train);
  is_drained_ = is_drained_ || record_.drain;
  if (pace_) pace_->on_verdict(position_.step, record_.save_interval, record_.last_save);
  if (partial_) {
    partial_->on_verdict(record_.published, record_.refused);
    if (record_.applied) partial_->on_update(expert_loads_);
    record_.lost_token_share = partial_->lost_share(position_.step);
  }
  if (examiner_) examiner_->on_verdict(record_);
  quarantine_samples();
  if (const auto divergence = find_divergence(record_, skipped_in_row_, train))
    return end_diverged(*divergence);
  // Nothing is published by a skipped step: what was saved last may be what it could not compute
  // with.
  if (!record_.applied) return absl::OkStatus();
  RETURN_IF_ERROR(note_prepared(record_.prepared));
  RETURN_IF_ERROR(note_prepared_locally(record_.prepared_locally));
  if (partial_) {
    const Step waiting = partial_->waiting();
    RETURN_IF_ERROR(durable_.outlive(waiting, save_waiting()));
  }
  const auto before_update = [&](const OperatorState& state, FlatRange range) -> absl::Status {
    RETURN_IF_ERROR(durable_.wait_copied(state));
    return before_write(shards_.index_of(state, range));
  };
  return gathers == Gathers::kNow
             ? model_->update(record_, position_.updates_applied, before_update)
             : model_->update_own(record_, position_.updates_applied, before_update);
}

void Trainer::meet_origin(const NonFinite& place) {
  Examination met{.step = Step(position_.step.value + 1),
                  .rank = environment_.transport->rank(),
                  .role = model_->topology().name_of(environment_.transport->rank()),
                  .first = place,
                  .node = environment_.node,
                  .samples = samples_at(place),
                  .checkpoint = std::max(agreed_, began_)};
  const bool lowers_scale =
      model_->config().train.precision == Precision::kFp16 && position_.loss_scale > kLossScaleMin;
  throw_if_error(examiner_->on_origin(std::move(met), skipped_in_row_, lowers_scale));
}

std::vector<ExaminedSample> Trainer::samples_at(const NonFinite& place) const {
  const BatchReader& batches = model_->batches();
  std::vector<ExaminedSample> samples;
  for (int32_t m = 0; m < model_->config().train.micro_batches; ++m) {
    if (place.micro_batch >= 0 && place.micro_batch != m) continue;
    for (const int64_t window :
         batches.training_windows(position_.step, MicroBatch(m), position_.quarantined_windows)) {
      const int64_t begin = batches.begin_of(window);
      samples.push_back({m, window, begin, begin + batches.window_tokens()});
    }
  }
  return samples;
}

void Trainer::quarantine_samples() {
  const bool is_wanted = model_->config().train.non_finite == NonFinitePolicy::kQuarantine;
  if (!is_wanted || record_.applied || record_.poisoned == StepFindings::kNoMicroBatch) return;
  const MicroBatch at_fault(static_cast<int32_t>(record_.poisoned));
  const std::vector<int64_t> windows = model_->batches().training_windows(
      Step(record_.step.value - 1), at_fault, position_.quarantined_windows);
  auto all = quarantined_with(position_.quarantined_windows, windows, model_->batches().windows());
  if (all)
    position_.quarantined_windows = *std::move(all);
  else
    log_warning(absl::StrCat("step ", record_.step.value,
                             ": no more samples are quarantined, there are too many"));
}

bool Trainer::is_evaluated(Step step) const {
  const JobConfig& config = model_->config();
  return is_due(step, config.evaluate.every_steps) || step.value >= config.train.steps;
}

int64_t Trainer::evaluation_batches() const {
  const int64_t batch =
      evaluation_batch(model_->membership().lanes(), model_->config().train.micro_batches);
  return (model_->evaluation().micro_batches() + batch - 1) / batch;
}

absl::StatusOr<Findings> Trainer::evaluate(int64_t batch, Boundary& boundary) {
  const int64_t size =
      evaluation_batch(model_->membership().lanes(), model_->config().train.micro_batches);
  const int64_t first = batch * size;
  const int64_t count = std::min(size, model_->evaluation().micro_batches() - first);
  ASSIGN_OR_RETURN(StepFindings findings, model_->evaluate(first, count, boundary));
  findings.prepared = prepared();
  return as_findings(std::move(findings));
}

void Trainer::apply_evaluation(const Findings& combined) {
  const StepFindings findings = from_findings(combined, moe_layers());
  position_.validation_loss = findings.loss_sum / findings.tokens;
  validation_accuracy_ = findings.hits / findings.tokens;
}

bool Trainer::is_finished() const {
  return is_drained_ || position_.step.value >= model_->config().train.steps;
}

}  // namespace evermoe
