#include "sim/hash/hash_partial.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

PartialSavesOptions saves_options(const Topology& topology, Role role,
                                  const HashModelOptions& options) {
  PartialSavesOptions result{.experts = options.experts,
                             .layers = topology.stages() * options.layers_per_stage,
                             .first_layer = role.stage * options.layers_per_stage,
                             .stage_layers = options.layers_per_stage,
                             .lanes = topology.lanes(role.stage),
                             .saved = options.experts_saved,
                             .in_memory = options.experts_in_memory,
                             .selection = options.expert_selection,
                             .layer_tokens = options.steps * options.micro_batches,
                             .plt_max = options.plt_max};
  for (int expert = 0; expert < options.experts; ++expert)
    result.owner_of.push_back(expert % result.lanes);
  return result;
}

}  // namespace

HashPartial::HashPartial(const Topology& topology, Role role, const HashModelOptions& options,
                         HashModel& model, SimulatedDisk& disk)
    : topology_(topology),
      role_(role),
      rank_(topology.rank_of(role)),
      options_(options),
      model_(model),
      disk_(disk),
      saves_options_(saves_options(topology, role, options)),
      saves_(saves_options_) {}

int HashPartial::expert_index(int operator_index) const {
  return model_.inventory()[static_cast<size_t>(operator_index)].expert;
}

// ---- restarts

StoredExperts HashPartial::stored_experts(Step step) const {
  StoredExperts stored{.step = step};
  const size_t per_stage = static_cast<size_t>(options_.layers_per_stage * options_.experts);
  for (int stage = 0; stage < topology_.stages(); ++stage) {
    if (step == Step(0)) {
      stored.experts.resize(stored.experts.size() + per_stage);
      continue;
    }
    const PartialFiles::Part& part = disk_.partial().at(step, topology_.rank_of({stage, 0}));
    stored.experts.insert(stored.experts.end(), part.experts.begin(), part.experts.end());
    stored.k = part.k.k;
    stored.lost_under_k = part.k.lost_under_k;
  }
  return stored;
}

std::vector<int64_t> HashPartial::images_for(Step step) const {
  std::vector<bool> is_held(static_cast<size_t>(options_.layers_per_stage * options_.experts));
  for (int i = 0; i < std::ssize(model_.operators()); ++i) {
    if (expert_index(i) >= 0) is_held[static_cast<size_t>(expert_index(i))] = model_.at(i).is_mine;
  }
  return saves_.images_for(step, is_held);
}

absl::Status HashPartial::restart(Communicator& world, View view, Step step) {
  const Step checkpoint = step > Step(0) ? step : Step(-1);
  view_ = view;
  if (!disk_.partial().may_write(view)) return Cancelled("others have gone back since");
  if (rank_ == Rank(0)) disk_.restart(view, step);
  RETURN_IF_ERROR(annotate(world.barrier(), "restart"));
  if (saves_.on_published(checkpoint)) {
    for (auto& [i, image] : std::exchange(under_way_, {})) images_[i] = image;
  } else if (saves_.is_under_way()) {
    saves_.on_failed(saves_.under_way());
    under_way_.clear();
  }
  saves_.drop_waiting();
  waiting_.clear();
  if (saves_.committed() != checkpoint) images_.clear();
  std::vector<int64_t> agreed = images_for(checkpoint);
  RETURN_IF_ERROR(world.all_reduce<int64_t>(agreed, ReduceOp::kMin));
  const PartialRestart restart = saves_.restart(stored_experts(step), agreed);
  if (rank_ == Rank(0)) disk_.partial().note_lost(rank_, saves_.lost());
  if (step == Step(0)) return absl::OkStatus();
  const std::vector<std::byte>* const newest = disk_.read(step, rank_);
  if (newest == nullptr) return NotFound(absl::StrCat("no durable state of step ", step.value));
  model_.load(*newest);
  const size_t first = static_cast<size_t>(saves_options_.first_layer * options_.experts);
  for (int i = 0; i < std::ssize(model_.operators()); ++i) {
    if (!model_.at(i).is_mine) continue;
    const int expert = expert_index(i);
    const bool is_in_memory = expert >= 0 ? restart.from_memory[first + static_cast<size_t>(expert)]
                                          : images_.contains(i);
    Step version = disk_.partial().at(step, rank_).saved_at[static_cast<size_t>(i)];
    if (is_in_memory) {
      version = images_.at(i).step;
      model_.at(i).shard = images_.at(i).shard;
    } else {
      images_.erase(i);
      HashModel stored = model_;
      const std::vector<std::byte>* const older = disk_.find(version, rank_);
      CHECK(older != nullptr) << "step " << version << " is not kept";
      stored.load(*older);
      model_.at(i).shard = stored.at(i).shard;
    }
    disk_.partial().note_version(rank_, i, version);
  }
  return absl::OkStatus();
}

// ---- checkpoints

void HashPartial::on_verdict(Step published, Step refused) {
  if (saves_.on_published(published)) {
    for (auto& [i, image] : std::exchange(under_way_, {})) images_[i] = image;
  }
  if (saves_.on_failed(refused)) under_way_.clear();
}

bool HashPartial::is_in(const LossySelection& selection, int operator_index) const {
  const int expert = expert_index(operator_index);
  if (expert < 0) return true;
  return std::ranges::count(selection[static_cast<size_t>(expert / options_.experts)],
                            expert % options_.experts) > 0;
}

void HashPartial::take() {
  const Step step(model_.position().step);
  if (saves_.waiting() >= Step(0)) disk_.mark("checkpoint in memory gave way to a newer one");
  const LossySelection& copied = saves_.take(step);
  waiting_.clear();
  for (int i = 0; i < std::ssize(model_.operators()); ++i) {
    if (is_in(copied, i) && model_.at(i).is_mine) waiting_[i] = {step, model_.at(i).shard};
  }
  waiting_state_.emplace(model_);
}

absl::StatusOr<bool> HashPartial::begin() {
  const Step base = saves_.committed();
  const LossyTwoLevelSelection* const chosen = saves_.begin();
  if (chosen == nullptr) {
    if (saves_.waiting() < Step(0) && !waiting_.empty()) {
      disk_.mark("checkpoint in memory of no use after a failed one");
      waiting_.clear();
    }
    return false;
  }
  under_way_ = std::exchange(waiting_, {});
  const Step step = saves_.under_way();
  if (step < Step(model_.position().step)) disk_.mark("checkpoint saved after it waited in memory");
  HashModel saved = *waiting_state_;
  PartialFiles::Part part{.experts = saves_.stored(), .k = saves_.k()};
  for (int i = 0; i < std::ssize(model_.operators()); ++i) {
    const bool is_saved = is_in(chosen->persist, i);
    part.saved_at.push_back(
        is_saved ? step : disk_.partial().at(base, rank_).saved_at[static_cast<size_t>(i)]);
    if (!is_saved) saved.at(i).shard = {};
  }
  RETURN_IF_ERROR(write(step, saved, std::move(part)));
  return true;
}

absl::Status HashPartial::save_whole() {
  const Step step(model_.position().step);
  return write(step, model_,
               {.saved_at = std::vector<Step>(model_.operators().size(), step),
                .experts = saves_.stored_by_whole(step),
                .k = saves_.k()});
}

absl::Status HashPartial::write(Step step, const HashModel& state, PartialFiles::Part part) {
  if (!may_write()) return Cancelled("others have gone back since");
  RETURN_IF_ERROR(disk_.write(step, rank_, state.state()));
  disk_.partial().write(step, rank_, std::move(part));
  return absl::OkStatus();
}

// ---- the oracle

bool HashRestarts::arrive() {
  const int64_t step = model_.position().step;
  std::map<int, State>& here = history_[step];
  for (int i = 0; i < std::ssize(model_.operators()); ++i) {
    if (model_.at(i).is_mine) here[i] = {model_.at(i).shard, learned_[i]};
  }
  bool changed = false;
  for (const PartialRestartPoint& restart : *options_.restarts) {
    if (restart.at != Step(step)) continue;
    for (const auto& [where, version] : restart.versions) {
      const auto& [rank, i] = where;
      if (rank != rank_) continue;
      const State& older = history_.at(version.value).at(i);
      model_.at(i).shard = older.shard;
      lost_ += learned_[i] - older.learned;
      learned_[i] = older.learned;
      changed = true;
    }
  }
  return changed;
}

void HashRestarts::on_update(const std::vector<int64_t>& tokens) {
  for (int i = 0; i < std::ssize(model_.operators()); ++i) {
    const int expert = model_.inventory()[static_cast<size_t>(i)].expert;
    if (expert >= 0 && model_.at(i).is_mine) learned_[i] += tokens[static_cast<size_t>(expert)];
  }
}

}  // namespace evermoe
