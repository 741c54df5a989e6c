// How a trainer of the hash model comes to other lanes, its experts to others, and both to a
// checkpoint of other lanes.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "sim/hash/hash_mix.h"
#include "sim/hash/hash_trainer.h"

namespace evermoe {

void HashTrainer::lay_out() {
  place_ = membership_.place_of(transport_.rank()).value_or(Role{stage_, -1});
  model_.emplace(place_, lanes(), options_);
  connect();
}

void HashTrainer::connect() {
  pass_.reset();
  stage_group_.reset();
  std::vector<int> widths;
  for (int s = 0; s < topology_.stages(); ++s) widths.push_back(membership_.lanes().lanes(s));
  order_ = pipeline_schedule(widths, options_.micro_batches)[static_cast<size_t>(stage_)];
  if (rests()) return;
  stage_group_.emplace(transport_, membership_.stage_group(stage_),
                       CommunicatorOptions{view_, kFirstStageGroup, kCallMax});
  pass_.emplace(membership_.lanes(), place_, options_, *model_, neighbours_, *stage_group_);
}

void HashTrainer::take_membership(const Membership& membership) {
  if (membership == membership_) return;
  membership_ = membership;
  lay_out();
}

void HashTrainer::rest_at(Step step, const Findings& verdict) {
  CHECK(rests()) << "a role that trains";
  model_->take_position({.step = step.value});
  is_drained_ = is_drain(verdict);
}

absl::Status HashTrainer::exchange_shards(Communicator& group, const std::vector<Rank>& from,
                                          HashShards& shards) {
  const std::vector<HashModel::Shard> own = shards_of(*model_);
  for (const Rank rank : from) {
    std::vector<HashModel::Shard> all = own;
    int index = 0;
    while (group.rank_of(index) != rank) ++index;
    RETURN_IF_ERROR(group.broadcast(index, std::as_writable_bytes(std::span(all))));
    shards.push_back(std::move(all));
  }
  return absl::OkStatus();
}

absl::Status HashTrainer::change_membership(const Membership& to, View view,
                                            RecordBytes& position) {
  view_ = std::max(view_, view);
  const std::vector<Rank> before = membership_.stage_group(stage_), after = to.stage_group(stage_);
  const std::vector<Rank> movers = ranks_of_both(membership_, to, stage_);
  HashModel::Position here = model_->position();
  const bool moves = before != after && std::ranges::count(movers, transport_.rank()) > 0;
  HashShards shards;
  if (moves) {
    Communicator group(transport_, movers, {view_, move_group(step()), kCallMax});
    RETURN_IF_ERROR(exchange_shards(group, before, shards));
    const auto first = static_cast<int>(std::ranges::find(movers, before[0]) - movers.begin());
    auto size = static_cast<int64_t>(position.size());
    RETURN_IF_ERROR(group.broadcast(first, std::as_writable_bytes(std::span(&size, 1))));
    position.resize(static_cast<size_t>(size));
    RETURN_IF_ERROR(group.broadcast(first, position));
    if (rests())  // its part is the last one
      std::memcpy(&here, position.data() + position.size() - sizeof(here), sizeof(here));
  }
  membership_ = to;
  if (before == after || !moves) {
    connect();
    return absl::OkStatus();
  }
  lay_out();
  model_->take_position(here);
  if (rests()) return absl::OkStatus();
  take_shards(shards, here.placement, place_.lane, lanes(), *model_);
  return gather_all();
}

// ---- experts

bool HashTrainer::may_move_experts(Step state) const {
  return options_.move_experts_every > 0 && state > Step(0) &&
         state.value % options_.move_experts_every == 0;
}

// Asked again at the same state it is the same.
uint64_t HashTrainer::next_placement() const {
  const HashModel::Position& position = model_->position();
  const uint64_t drawn = mix(position.history, 0xba1a);
  return drawn % 3 == 0 ? position.placement : drawn / 3 % 4;
}

bool HashTrainer::moves_experts() const {
  return !rests() && lanes() > 1 && next_placement() != model_->position().placement;
}

absl::Status HashTrainer::move_experts() {
  if (!moves_experts()) {
    if (!rests()) model_->place(next_placement());
    return absl::OkStatus();
  }
  HashShards shards;
  const std::vector<Rank> ranks = membership_.stage_group(stage_);
  Communicator group(transport_, ranks, {view_, expert_move_group(step()), kCallMax});
  RETURN_IF_ERROR(exchange_shards(group, ranks, shards));
  const uint64_t before = model_->position().placement;
  model_->place(next_placement());
  take_experts(shards, before, *model_);
  experts_moved_ = step();
  return gather_all();
}

absl::Status HashTrainer::load(Step step) {
  const std::vector<std::byte>* const own = disk_.read(step, transport_.rank());
  if (own == nullptr) return NotFound(absl::StrCat("no durable state of step ", step.value));
  if (rests()) {
    rest_at(step, {});
    return absl::OkStatus();
  }
  HashFile file = read_hash_file(*own);
  const Membership then(topology_, file.resting);
  trained_on_ = std::move(file.trained_on);  // of a role that rested none: others have it
  if (then.stage_group(stage_) == membership_.stage_group(stage_)) {
    model_->load(file.state);
    return absl::OkStatus();
  }
  HashShards shards;
  for (const Rank rank : then.stage_group(stage_)) {
    const std::vector<std::byte>* const other = disk_.read(step, rank);
    if (other == nullptr) return NotFound(absl::StrCat("no durable state of step ", step.value));
    HashModel saved(*then.place_of(rank), then.lanes().lanes(stage_), options_);
    HashFile others = read_hash_file(*other);
    saved.load(others.state);
    trained_on_ = std::move(others.trained_on);
    shards.push_back(shards_of(saved));
    model_->take_position(saved.position());
  }
  take_shards(shards, model_->position().placement, place_.lane, lanes(), *model_);
  return absl::OkStatus();
}

}  // namespace evermoe
