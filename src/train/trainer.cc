#include "train/trainer.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "model/initial_state.h"
#include "tensor/host_bytes.h"
#include "train/optimizer.h"
#include "train/state_transfer.h"

namespace evermoe {
namespace {

constexpr uint16_t kWorldGroup = 0;
constexpr uint16_t kStageGroup = 1;
constexpr uint16_t kFirstExpertGroup = 2;

// A slow disk is no reason to lose a checkpoint.
constexpr absl::Duration kSavePatience = absl::Minutes(30);

Topology topology_of(const JobConfig& config) {
  return Topology(std::vector<int>(config.parallel.lanes.begin(), config.parallel.lanes.end()), config.model.layers);
}

std::vector<Rank> all_ranks(int size) {
  std::vector<Rank> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(Rank(r));
  return ranks;
}

}  // namespace

StateTypes state_types(Precision precision) {
  switch (precision) {
    case Precision::kFp32: return {.compute = at::kFloat, .master = at::kFloat};
    case Precision::kBf16: return {.compute = at::kBFloat16, .master = at::kFloat};
    case Precision::kFp16: return {.compute = at::kHalf, .master = at::kFloat};
    case Precision::kFp64: return {.compute = at::kDouble, .master = at::kDouble};
  }
  CHECK(false) << "precision";
  __builtin_unreachable();
}

Trainer::Trainer(const JobConfig& config, const TrainerEnvironment& environment)
    : config_(config), environment_(environment), topology_(topology_of(config)),
      role_(topology_.role_of(environment.transport->rank())), types_(state_types(config.train.precision)) {
  Transport& transport = *environment.transport;
  CHECK(transport.size() == topology_.world_size()) << transport.size() << " processes";
  const auto options = [&](uint16_t group) {
    return CommunicatorOptions{environment.view, group, absl::Seconds(config.run.deadline_seconds)};
  };
  world_ = std::make_unique<Communicator>(transport, all_ranks(transport.size()), options(kWorldGroup));
  const std::vector<Rank> stage_ranks = topology_.stage_group(role_.stage);
  stage_group_ = std::make_unique<Communicator>(transport, stage_ranks, options(kStageGroup));

  const int lanes = topology_.lanes(role_.stage);
  const auto placement =
      ExpertPlacement::uniform(static_cast<int>(config.model.experts), lanes,
                               static_cast<int>(std::min<int64_t>(config.parallel.expert_replicas, lanes)));
  // One communicator per distinct set of lanes, numbered in the order of the sets, so that the
  // members of each agree on its number without talking.
  std::map<std::vector<int>, Communicator*> by_lanes;
  for (int expert = 0; expert < placement.experts(); ++expert) by_lanes[placement.lanes_of(expert)] = nullptr;
  uint16_t group = kFirstExpertGroup;
  for (auto& [lane_set, communicator] : by_lanes) {
    const uint16_t number = group++;
    if (std::find(lane_set.begin(), lane_set.end(), role_.lane) == lane_set.end()) continue;
    std::vector<Rank> members;
    for (const int lane : lane_set) members.push_back(stage_ranks[lane]);
    expert_groups_.push_back(std::make_unique<Communicator>(transport, members, options(number)));
    communicator = expert_groups_.back().get();
  }
  StageGroups groups{stage_group_.get(), {}};
  for (int expert = 0; expert < placement.experts(); ++expert) {
    groups.expert_owners.push_back(by_lanes[placement.lanes_of(expert)]);
  }
  batches_ = std::make_unique<BatchReader>(config_, environment.training, environment.validation, types_.device);
  model_ = std::make_unique<StageModel>(config_.model, topology_, role_, placement, groups, types_);
  runner_ = std::make_unique<StageRunner>(config_.train, topology_, role_, *world_, *batches_, *model_);
  operators_ = model_->operators();
}

Trainer::~Trainer() = default;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::create(const JobConfig& config,
                                                         const TrainerEnvironment& environment) {
  const int64_t length = config.model.sequence_length;
  if (window_count(environment.training.size(), length) < 1 || window_count(environment.validation.size(), length) < 1) {
    return InvalidInput(absl::StrCat("data.path: ", environment.training.size(),
                                     " training and ", environment.validation.size(),
                                     " validation tokens, but one sequence needs ", length + 1));
  }
  std::unique_ptr<Trainer> trainer;
  RETURN_IF_ERROR(guard([&] {
    trainer.reset(new Trainer(config, environment));
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(trainer->open_saver());
  return trainer;
}

absl::Status Trainer::open_saver() {
  SaverOptions options;
  options.directory = environment_.checkpoint_directory;
  options.rank = world_->index();
  options.world_size = world_->size();
  options.state_type = element_type(types_.master);
  options.compute_type = element_type(types_.compute);
  options.topology = topology_.to_string();
  options.keep_newest = config_.checkpoint.keep_newest;
  options.keep_every_steps = config_.checkpoint.keep_every_steps;
  options.keep_best = config_.checkpoint.keep_best;
  ASSIGN_OR_RETURN(saver_, CheckpointSaver::open(*environment_.files, options));
  return absl::OkStatus();
}

absl::Status Trainer::reduce_gradients() {
  for (OperatorState* state : operators_) RETURN_IF_ERROR(state->reduce_gradients());
  return absl::OkStatus();
}

absl::Status Trainer::gather_compute() {
  for (OperatorState* state : operators_) RETURN_IF_ERROR(state->gather_compute());
  return absl::OkStatus();
}

absl::StatusOr<StepFindings> Trainer::accumulate_gradients() {
  StepFindings findings;
  RETURN_IF_ERROR(guard([&]() -> absl::Status {
    for (OperatorState* state : operators_) state->clear_gradients();
    findings = runner_->run_step(position_.step, position_.loss_scale);
    fault_point("step/accumulated");
    RETURN_IF_ERROR(reduce_gradients());
    findings.gradient_square_sum = gradient_square_sum(operators_);
    return absl::OkStatus();
  }));
  return findings;
}

absl::StatusOr<StepRecord> Trainer::step(bool drain) {
  ASSIGN_OR_RETURN(StepFindings findings, accumulate_gradients());
  findings.prepared = saver_->prepared();
  findings.drain = drain;
  fault_point("step/before_verdict");
  ASSIGN_OR_RETURN(const StepFindings combined, combine(*world_, findings));
  const StepRecord record = decide(combined, config_.train, position_);
  fault_point("step/after_verdict");
  const TrainingPosition after = advance(position_, record, config_.train);
  RETURN_IF_ERROR(guard([&]() -> absl::Status {
    if (!record.applied) return absl::OkStatus();
    apply_adamw(operators_, config_.train, record, after.updates_applied);
    fault_point("step/updated");
    return gather_compute();
  }));
  position_ = after;
  publish_prepared(record.prepared);
  return record;
}

absl::StatusOr<double> Trainer::evaluate() {
  double loss[] = {0};
  RETURN_IF_ERROR(guard([&] {
    loss[0] = runner_->run_validation(config_.evaluate.micro_batches);
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(annotate(world_->all_reduce<double>(loss, ReduceOp::kSum), "validation loss"));
  position_.validation_loss = loss[0] / static_cast<double>(config_.evaluate.micro_batches);
  return position_.validation_loss;
}

void Trainer::publish_prepared(Step prepared) {
  if (prepared <= publish_requested_) return;
  publish_requested_ = prepared;
  if (world_->index() == 0) saver_->publish(prepared);
}

std::string Trainer::identity() const {
  const TokenPart& part = environment_.training;
  return absl::StrCat(model_identity(config_), "data.contents=", to_hex(part.file->contents()), "\ndata.part=",
                      part.begin, "..", part.end, "\n");
}

absl::Status Trainer::save() {
  position_.model_identity = identity();
  position_.configuration = to_toml(config_);
  RETURN_IF_ERROR(saver_->begin(position_, shard_sources(operators_)));
  last_save_ = position_.step;
  return absl::OkStatus();
}

absl::Status Trainer::wait_everywhere(const std::function<absl::Status(absl::Duration)>& wait, const char* what) {
  // Ranks talk after every slice, so that one with a slow disk is not taken for a hung one.
  const absl::Duration slice = absl::Seconds(config_.run.deadline_seconds) / 4;
  enum : int64_t { kDone = 0, kWaiting = 1, kFailed = 2 };
  for (absl::Duration waited; waited < kSavePatience; waited += slice) {
    const absl::Status own = wait(slice);
    int64_t worst[] = {own.ok() ? kDone : absl::IsDeadlineExceeded(own) ? kWaiting : kFailed};
    RETURN_IF_ERROR(annotate(world_->all_reduce<int64_t>(worst, ReduceOp::kMax), what));
    if (worst[0] == kDone) return absl::OkStatus();
    if (worst[0] == kWaiting) continue;
    if (!own.ok() && !absl::IsDeadlineExceeded(own)) return own;
    return Internal(absl::StrCat(what, ": failed on another rank"));
  }
  return Timeout(absl::StrCat(what, ": not done after ", absl::FormatDuration(kSavePatience)));
}

absl::Status Trainer::finish() {
  RETURN_IF_ERROR(wait_everywhere([&](absl::Duration slice) { return saver_->wait_prepared(slice); },
                                  "writing the checkpoint"));
  int64_t prepared[] = {saver_->prepared().value};
  RETURN_IF_ERROR(annotate(world_->all_reduce<int64_t>(prepared, ReduceOp::kMin), "checkpoint"));
  publish_prepared(Step(prepared[0]));
  return wait_everywhere(
      [&](absl::Duration slice) {
        return world_->index() == 0 ? saver_->wait_published(slice) : absl::OkStatus();
      },
      "publishing the checkpoint");
}

Step Trainer::published() const { return saver_->published(); }

}  // namespace evermoe
