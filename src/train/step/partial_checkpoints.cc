#include "train/step/partial_checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "config/job_topology.h"
#include "train/layers/stage_model.h"

namespace evermoe {
namespace {

bool is_expert(const OperatorSpec& spec) { return spec.kind == OperatorKind::kExpert; }

int64_t tokens_to_experts(const JobConfig& config) {
  return config.train.micro_batches * config.train.micro_batch_size * config.model.sequence_length *
         config.model.top_k;
}

std::vector<OperatorSpec> experts_of_stage(const ModelShape& shape, const Topology& topology,
                                           int stage) {
  std::vector<OperatorSpec> specs = operators_of_stage(shape, topology, stage);
  std::erase_if(specs, [](const OperatorSpec& spec) { return !is_expert(spec); });
  return specs;
}

PartialSavesOptions options_of(const JobConfig& config, const Topology& topology, Role role,
                               const std::vector<OperatorSpec>& experts) {
  const ProtectionConfig& protection = config.protection;
  PartialSavesOptions options;
  options.experts = static_cast<int>(config.model.experts);
  options.layers = config.model.moe_layers_before(config.model.layers);
  options.lanes = topology.lanes(role.stage);
  const ExpertPlacement placement = expert_placement_of(config, options.lanes);
  for (int expert = 0; expert < options.experts; ++expert)
    options.owner_of.push_back(placement.lanes_of(expert).front());
  if (!experts.empty()) options.first_layer = config.model.moe_layers_before(experts[0].layer);
  options.stage_layers = static_cast<int>(std::ssize(experts)) / options.experts;
  options.saved = static_cast<int>(protection.experts_saved);
  options.in_memory = protection.experts_in_memory == 0
                          ? options.experts
                          : static_cast<int>(protection.experts_in_memory);
  options.selection = protection.expert_selection;
  options.layer_tokens = tokens_to_experts(config) * config.train.steps;
  options.plt_max = protection.plt_max;
  return options;
}

}  // namespace

PartialCheckpoints::PartialCheckpoints(const JobConfig& config, const Topology& topology, Role role,
                                       std::vector<OperatorState*> operators)
    : shape_(config.model),
      experts_(experts_of_stage(shape_, topology, role.stage)),
      operators_(std::move(operators)),
      describes_stage_(role.lane == 0),
      layer_tokens_(tokens_to_experts(config)),
      options_(options_of(config, topology, role, experts_)),
      saves_(options_) {}

int PartialCheckpoints::index_in_model(const OperatorSpec& spec) const {
  return shape_.moe_layers_before(spec.layer) * options_.experts + spec.expert;
}

int PartialCheckpoints::index_in_stage(const OperatorSpec& spec) const {
  return index_in_model(spec) - options_.first_layer * options_.experts;
}

// ---- restarts

StoredExperts PartialCheckpoints::stored_experts(const Manifest* manifest) const {
  StoredExperts stored;
  stored.experts.resize(static_cast<size_t>(options_.layers) *
                        static_cast<size_t>(options_.experts));
  if (manifest == nullptr) return stored;
  stored.step = manifest->position.step;
  stored.k = static_cast<int>(manifest->position.experts_saved);
  stored.lost_under_k = manifest->position.lost_under_k;
  for (const OperatorSpec& spec : model_operators(shape_)) {
    if (!is_expert(spec)) continue;
    const ManifestOperator* const op = manifest->find(spec.name);
    CHECK(op != nullptr) << spec.name;  // all ranks would have failed to load it
    stored.experts[static_cast<size_t>(index_in_model(spec))] = {
        .saved_at = saved_at(*manifest, *op),
        .unsaved = op->unsaved_tokens,
        .lost = op->lost_tokens};
  }
  return stored;
}

// What is under way is committed if everybody goes back to it, and else never will be; what waits
// is of a past that is given up.
void PartialCheckpoints::settle(Step checkpoint) {
  if (saves_.on_published(checkpoint)) {
    images_.commit();
  } else if (saves_.is_under_way()) {
    saves_.on_failed(saves_.under_way());
    images_.discard();
  }
  saves_.drop_waiting();
  images_.drop_waiting();
  if (saves_.committed() != checkpoint) images_.clear();
}

std::vector<int64_t> PartialCheckpoints::good_images(Step checkpoint) const {
  std::vector<bool> is_held(static_cast<size_t>(options_.stage_layers) *
                            static_cast<size_t>(options_.experts));
  for (const OperatorState* const state : operators_) {
    if (is_expert(state->spec()))
      is_held[static_cast<size_t>(index_in_stage(state->spec()))] = state->shard().size() > 0;
  }
  std::vector<int64_t> images = saves_.images_for(checkpoint, is_held);
  for (const OperatorState* const state : operators_) {
    if (!is_expert(state->spec()) || state->shard().size() == 0) continue;
    int64_t& image = images[static_cast<size_t>(index_in_model(state->spec()))];
    if (!images_.is_good(state->spec().name)) image = PartialSaves::kNoImage;
  }
  return images;
}

absl::StatusOr<std::vector<OperatorState*>> PartialCheckpoints::restart(Communicator& world,
                                                                        View view,
                                                                        const Manifest* manifest) {
  view_ = view;
  const StoredExperts stored = stored_experts(manifest);
  const Step checkpoint = manifest == nullptr ? Step(-1) : stored.step;
  settle(checkpoint);
  std::vector<int64_t> images = good_images(checkpoint);
  RETURN_IF_ERROR(annotate(world.all_reduce<int64_t>(images, ReduceOp::kMin), "images of experts"));
  const PartialRestart restart = saves_.restart(stored, images);
  lost_now_ = restart.lost_now;
  std::vector<OperatorState*> to_load;
  for (OperatorState* const state : operators_) {
    if (state->shard().size() == 0) continue;
    const std::string& name = state->spec().name;
    const bool is_in_memory =
        is_expert(state->spec())
            ? restart.from_memory[static_cast<size_t>(index_in_model(state->spec()))]
            : images_.is_good(name);
    if (is_in_memory) {
      images_.restore(*state);
    } else {
      images_.drop(name);
      to_load.push_back(state);
    }
  }
  return to_load;
}

// ---- checkpoints

void PartialCheckpoints::on_verdict(Step published, Step failed) {
  if (saves_.on_published(published)) images_.commit();
  if (saves_.on_failed(failed)) images_.discard();
}

std::vector<ExpertHistory> PartialCheckpoints::histories(const std::vector<StoredExpert>& stored,
                                                         Step step) const {
  std::vector<ExpertHistory> histories;
  if (!describes_stage_) return histories;
  for (const OperatorSpec& spec : experts_) {
    const StoredExpert& expert = stored[static_cast<size_t>(index_in_stage(spec))];
    histories.push_back({.name = spec.name,
                         .unsaved_tokens = expert.unsaved,
                         .lost_tokens = expert.lost,
                         .is_saved = expert.saved_at == step});
  }
  std::sort(histories.begin(), histories.end(),
            [](const ExpertHistory& a, const ExpertHistory& b) { return a.name < b.name; });
  return histories;
}

PartialSave PartialCheckpoints::describe_whole(Step step) const {
  return {.histories = histories(saves_.stored_by_whole(step), step), .view = view_.value};
}

TrainingPosition PartialCheckpoints::describe(TrainingPosition position) const {
  position.experts_saved = saves_.k().k;
  position.lost_under_k = saves_.k().lost_under_k;
  return position;
}

bool PartialCheckpoints::is_in(const LossySelection& selection, const OperatorState& state) const {
  const OperatorSpec& spec = state.spec();
  if (state.shard().size() == 0) return false;
  if (!is_expert(spec)) return true;
  const int layer = index_in_stage(spec) / options_.experts;
  return std::ranges::count(selection[static_cast<size_t>(layer)], spec.expert) > 0;
}

void PartialCheckpoints::take(const TrainingPosition& position) {
  const LossySelection& copied = saves_.take(position.step);
  std::vector<OperatorState*> states;
  for (OperatorState* const state : operators_) {
    if (is_in(copied, *state)) states.push_back(state);
  }
  images_.copy(states);
  waiting_ = describe(position);
}

std::optional<PartialCheckpoints::Save> PartialCheckpoints::begin() {
  const Step base = saves_.committed();
  const LossyTwoLevelSelection* const chosen = saves_.begin();
  if (chosen == nullptr) {
    if (saves_.waiting() < Step(0)) images_.drop_waiting();
    return std::nullopt;
  }
  images_.begin();
  std::vector<OperatorState*> saved;
  for (OperatorState* const state : operators_) {
    if (is_in(chosen->persist, *state)) saved.push_back(state);
  }
  return Save{.position = waiting_,
              .shards = images_.sources(saved),
              .partial = {.base = base,
                          .histories = histories(saves_.stored(), saves_.under_way()),
                          .view = view_.value}};
}

double PartialCheckpoints::lost_share(Step step) const {
  if (step <= Step(0)) return 0;
  const double tokens =
      static_cast<double>(layer_tokens_) * options_.layers * static_cast<double>(step.value);
  return static_cast<double>(saves_.lost()) / tokens;
}

}  // namespace evermoe
