#include "protection/partial_experts/partial_saves.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace evermoe {
namespace {

ExpertTable filled(int layers, int experts, int64_t value) {
  return ExpertTable(static_cast<size_t>(layers),
                     std::vector<int64_t>(static_cast<size_t>(experts), value));
}

template <typename Visit>  // (layer, expert, index by layer and expert)
void for_each_expert(const ExpertTable& table, const Visit& visit) {
  size_t index = 0;
  for (size_t layer = 0; layer < table.size(); ++layer) {
    for (size_t expert = 0; expert < table[layer].size(); ++expert) visit(layer, expert, index++);
  }
}

int64_t sum_of(const ExpertTable& table) {
  int64_t total = 0;
  for (const std::vector<int64_t>& layer : table)
    total = std::accumulate(layer.begin(), layer.end(), total);
  return total;
}

bool is_within(const LossySelection& part, const LossySelection& whole) {
  for (size_t layer = 0; layer < part.size(); ++layer) {
    for (const int expert : part[layer]) {
      if (std::ranges::count(whole[layer], expert) == 0) return false;
    }
  }
  return true;
}

void set_at(ExpertTable& table, const LossySelection& chosen, int64_t value) {
  for (size_t layer = 0; layer < chosen.size(); ++layer) {
    for (const int expert : chosen[layer]) table[layer][static_cast<size_t>(expert)] = value;
  }
}

// Fills up every layer's choice to `count` experts, those with most tokens first.
LossySelection filled_up(LossySelection chosen, size_t count, const ExpertTable& tokens,
                         const std::vector<int>& order) {
  for (size_t layer = 0; layer < chosen.size(); ++layer) {
    std::vector<int> others;
    for (const int expert : order) {
      if (std::ranges::count(chosen[layer], expert) == 0) others.push_back(expert);
    }
    std::stable_sort(others.begin(), others.end(), [&](int a, int b) {
      return tokens[layer][static_cast<size_t>(a)] > tokens[layer][static_cast<size_t>(b)];
    });
    for (const int expert : others) {
      if (chosen[layer].size() >= count) break;
      chosen[layer].push_back(expert);
    }
  }
  return chosen;
}

}  // namespace

PartialSaves::PartialSaves(PartialSavesOptions options)
    : options_(std::move(options)),
      interleaved_(interleaved_experts(options_.owner_of, options_.lanes)),
      counters_(options_.stage_layers, options_.experts),
      stored_at_(filled(options_.stage_layers, options_.experts, -1)),
      copied_at_(stored_at_),
      lost_(filled(options_.stage_layers, options_.experts, 0)),
      image_gap_(filled(options_.stage_layers, options_.experts, kNoImage)),
      k_{.k = options_.saved} {
  CHECK(std::ssize(options_.owner_of) == options_.experts) << options_.owner_of.size();
  CHECK(1 <= options_.saved && options_.saved <= options_.experts) << options_.saved;
  CHECK(options_.first_layer + options_.stage_layers <= options_.layers) << options_.layers;
}

// ---- restarts

std::vector<int64_t> PartialSaves::images_for(Step checkpoint,
                                              const std::vector<bool>& is_held) const {
  CHECK(!is_under_way() && !waiting_) << under_way() << ", " << waiting();
  const size_t all = static_cast<size_t>(options_.layers) * static_cast<size_t>(options_.experts);
  std::vector<int64_t> images(all, kNotHeld);
  for_each_expert(image_gap_, [&](size_t layer, size_t expert, size_t index) {
    if (!is_held[index]) return;
    images[first_of_stage() + index] =
        committed_ == checkpoint ? image_gap_[layer][expert] : kNoImage;
  });
  return images;
}

PartialRestart PartialSaves::restart(const StoredExperts& stored, std::span<const int64_t> agreed) {
  CHECK(!is_under_way() && !waiting_) << under_way() << ", " << waiting();
  CHECK(stored.experts.size() == agreed.size()) << agreed.size();
  PartialRestart result;
  LossyKState before{.k = stored.k > 0 ? stored.k : options_.saved,
                     .lost_under_k = stored.lost_under_k};
  std::vector<int64_t> lost_now;
  for (size_t i = 0; i < agreed.size(); ++i) {
    const bool is_in_memory = agreed[i] != kNoImage && agreed[i] != kNotHeld;
    result.from_memory.push_back(is_in_memory);
    lost_now.push_back(is_in_memory ? agreed[i] : stored.experts[i].unsaved);
    CHECK(0 <= lost_now.back() && lost_now.back() <= stored.experts[i].unsaved)
        << "expert " << i << ": " << lost_now.back() << " of " << stored.experts[i].unsaved;
    result.lost_now += lost_now.back();
    before.lost += stored.experts[i].lost;
  }
  const bool is_fixed = options_.plt_max >= 1;
  k_ = lossy_k_after_fault(before, result.lost_now, k_options(options_.layers)).state;
  if (is_fixed) k_.k = before.k;

  ExpertTable unsaved = filled(options_.stage_layers, options_.experts, 0);
  for_each_expert(unsaved, [&](size_t layer, size_t expert, size_t index) {
    const size_t i = first_of_stage() + index;
    const StoredExpert& held = stored.experts[i];
    unsaved[layer][expert] = held.unsaved - lost_now[i];
    lost_[layer][expert] = held.lost + lost_now[i];
    // Who has just come does not know how old the images of others are: ages in memory begin anew
    // with those in storage.
    stored_at_[layer][expert] = copied_at_[layer][expert] = held.saved_at.value;
    if (!result.from_memory[i]) image_gap_[layer][expert] = kNoImage;
  });
  counters_.restart(filled(options_.stage_layers, options_.experts, 0), std::move(unsaved));
  committed_ = stored.step > Step(0) ? stored.step : Step(-1);
  return result;
}

// ---- steps and checkpoints

void PartialSaves::add_step(std::span<const int64_t> tokens) {
  ExpertTable table = filled(options_.stage_layers, options_.experts, 0);
  CHECK(tokens.size() == table.size() * static_cast<size_t>(options_.experts)) << tokens.size();
  for_each_expert(table, [&](size_t layer, size_t expert, size_t index) {
    table[layer][expert] = tokens[index];
  });
  counters_.add_step(table);
}

LossyKOptions PartialSaves::k_options(int layers) const {
  const double tokens = static_cast<double>(options_.layer_tokens) * layers;
  return {.experts = options_.experts,
          .k_first = options_.saved,
          .lost_tokens_max = static_cast<int64_t>(options_.plt_max * tokens)};
}

LossyTwoLevelSelection PartialSaves::select(Step step, int k) const {
  const int copied = std::max(k, options_.in_memory);
  if (options_.selection == ExpertSelection::kSequential)
    return lossy_two_level(copied_at_, stored_at_, copied, k, interleaved_);
  LossyTwoLevelSelection chosen;
  chosen.persist = lossy_load_aware(counters_.storage().unsaved_at(step.value), k,
                                    options_.owner_of, options_.lanes)
                       .selection;
  chosen.snapshot = filled_up(chosen.persist, static_cast<size_t>(copied),
                              counters_.memory().unsaved_at(step.value), interleaved_);
  return chosen;
}

int PartialSaves::guarded_k(Step step) const {
  const auto exposed_after = [&](int k) {
    return counters_.storage().exposed_after(step.value, select(step, k).persist);
  };
  const LossyKState stage{.k = k_.k, .lost = sum_of(lost_)};
  return lossy_k_guarded(stage, exposed_after, k_options(options_.stage_layers)).state.k;
}

LossyTwoLevelSelection PartialSaves::select(Step step) const {
  if (committed_ >= Step(0)) return select(step, guarded_k(step));
  return {.snapshot = everything(), .persist = everything()};
}

LossySelection PartialSaves::everything() const {
  std::vector<int> all(static_cast<size_t>(options_.experts));
  std::iota(all.begin(), all.end(), 0);
  return LossySelection(static_cast<size_t>(options_.stage_layers), all);
}

std::vector<StoredExpert> PartialSaves::stored_by_whole(Step step) const {
  return describe(step, counters_.storage().unsaved(), everything());
}

std::vector<StoredExpert> PartialSaves::describe(Step step, const ExpertTable& unsaved,
                                                 const LossySelection& saved) const {
  ExpertTable at = stored_at_;
  set_at(at, saved, step.value);
  std::vector<StoredExpert> described;
  for_each_expert(at, [&](size_t layer, size_t expert, size_t) {
    const bool is_saved = at[layer][expert] == step.value;
    described.push_back({.saved_at = Step(at[layer][expert]),
                         .unsaved = is_saved ? 0 : unsaved[layer][expert],
                         .lost = lost_[layer][expert]});
  });
  return described;
}

void PartialSaves::move_buffers(BufferEvent event) {
  buffers_ = after_event(buffers_, event, {}).state;
}

const LossySelection& PartialSaves::take(Step step) {
  CHECK(step > committed_ && step > under_way() && step > waiting()) << step;
  if (waiting_) counters_.discard(waiting_->step.value);
  const BufferTransition began = after_event(buffers_, BufferEvent::kTick, {});
  CHECK(began.changed) << began.reason;  // with three buffers there is always one
  buffers_ = began.state;
  move_buffers(BufferEvent::kSnapshotDone);
  counters_.snapshot(step.value);
  // It is saved after the one under way has been committed, so it begins where that ends.
  PartialSaves then = *this;
  then.on_published(under_way());
  waiting_ = Waiting{step, then.select(step).snapshot};
  return waiting_->copied;
}

void PartialSaves::drop_waiting() {
  CHECK(!is_under_way()) << under_way();
  if (!waiting_) return;
  counters_.discard(waiting_->step.value);
  waiting_.reset();
  move_buffers(BufferEvent::kRestarted);
}

const LossyTwoLevelSelection* PartialSaves::begin() {
  if (!waiting_ || is_under_way()) return nullptr;
  const Step step = waiting_->step;
  LossyTwoLevelSelection selection = select(step);
  if (!is_within(selection.persist, waiting_->copied)) {
    drop_waiting();
    return nullptr;
  }
  selection.snapshot = std::move(waiting_->copied);
  waiting_.reset();
  move_buffers(BufferEvent::kPersistBegin);
  std::vector<StoredExpert> stored =
      describe(step, counters_.storage().unsaved_at(step.value), selection.persist);
  under_way_ = UnderWay{step, std::move(selection), std::move(stored)};
  return &under_way_->selection;
}

const std::vector<StoredExpert>& PartialSaves::stored() const {
  CHECK(is_under_way());
  return under_way_->stored;
}

bool PartialSaves::on_published(Step newest) {
  if (!is_under_way() || newest != under_way_->step) return false;
  const LossyTwoLevelSelection& selection = under_way_->selection;
  counters_.commit(newest.value, selection);
  set_at(stored_at_, selection.persist, newest.value);
  set_at(copied_at_, selection.snapshot, newest.value);
  set_at(image_gap_, selection.snapshot, 0);
  const ExpertTable& lacking = counters_.memory().at_commit();
  for_each_expert(image_gap_, [&](size_t layer, size_t expert, size_t) {
    int64_t& gap = image_gap_[layer][expert];
    if (gap != kNoImage) gap = lacking[layer][expert];
  });
  committed_ = newest;
  under_way_.reset();
  move_buffers(BufferEvent::kCommitted);
  return true;
}

bool PartialSaves::on_failed(Step step) {
  if (!is_under_way() || step != under_way_->step) return false;
  counters_.discard(step.value);
  under_way_.reset();
  move_buffers(BufferEvent::kPersistFailed);
  return true;
}

}  // namespace evermoe
