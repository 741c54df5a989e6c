// How a trainer of the hash model comes to other lanes, and to a checkpoint of other lanes.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
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

void HashTrainer::rest_at(Step step) {
  CHECK(rests()) << "a role that trains";
  model_->position() = {.step = step.value};
}

absl::Status HashTrainer::change_membership(const Membership& to, View view,
                                            RecordBytes& position) {
  view_ = std::max(view_, view);
  const std::vector<Rank> before = membership_.stage_group(stage_), after = to.stage_group(stage_);
  const std::vector<Rank> movers = ranks_of_both(membership_, to, stage_);
  const HashModel::Position here = model_->position();
  const bool moves = before != after && std::ranges::count(movers, transport_.rank()) > 0;
  HashShards shards;
  if (moves) {
    Communicator group(transport_, movers, {view_, move_group(step()), kCallMax});
    const std::vector<HashModel::Shard> own = shards_of(*model_);
    for (const Rank from : before) {
      std::vector<HashModel::Shard> all = own;
      const auto index = static_cast<int>(std::ranges::find(movers, from) - movers.begin());
      RETURN_IF_ERROR(group.broadcast(index, std::as_writable_bytes(std::span(all))));
      shards.push_back(std::move(all));
    }
    const auto first = static_cast<int>(std::ranges::find(movers, before[0]) - movers.begin());
    RETURN_IF_ERROR(group.broadcast(first, position));
  }
  membership_ = to;
  if (before == after || !moves) {
    connect();
    return absl::OkStatus();
  }
  lay_out();
  model_->position() = here;
  if (rests()) return absl::OkStatus();
  take_shards(shards, place_.lane, lanes(), *model_);
  return gather_all();
}

absl::Status HashTrainer::load(Step step) {
  const std::vector<std::byte>* const own = disk_.read(step, transport_.rank());
  if (own == nullptr) return NotFound(absl::StrCat("no durable state of step ", step.value));
  if (rests()) {
    rest_at(step);
    return absl::OkStatus();
  }
  const HashFile file = read_hash_file(*own);
  const Membership then(topology_, file.resting);
  if (then.stage_group(stage_) == membership_.stage_group(stage_)) {
    model_->load(file.state);
    return absl::OkStatus();
  }
  HashShards shards;
  for (const Rank rank : then.stage_group(stage_)) {
    const std::vector<std::byte>* const other = disk_.read(step, rank);
    if (other == nullptr) return NotFound(absl::StrCat("no durable state of step ", step.value));
    HashModel saved(*then.place_of(rank), then.lanes().lanes(stage_), options_);
    saved.load(read_hash_file(*other).state);
    shards.push_back(shards_of(saved));
    model_->position() = saved.position();
  }
  take_shards(shards, place_.lane, lanes(), *model_);
  return absl::OkStatus();
}

}  // namespace evermoe
