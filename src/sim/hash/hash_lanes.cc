#include "sim/hash/hash_lanes.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "sim/hash/hash_mix.h"

namespace evermoe {
namespace {

using Shard = HashModel::Shard;

// One number of the operator's shards before, for a place now.
uint64_t moved(const HashShards& before, size_t op, uint64_t Shard::*number, int place, int lanes) {
  uint64_t value = mix(static_cast<uint64_t>(place), static_cast<uint64_t>(lanes));
  for (const std::vector<Shard>& shards : before) value = mix(value, shards[op].*number);
  return value;
}

}  // namespace

std::vector<Shard> shards_of(HashModel& model) {
  std::vector<Shard> shards;
  for (const HashModel::Operator& op : model.operators()) shards.push_back(op.shard);
  return shards;
}

void take_experts(const HashShards& before, uint64_t placement_before, HashModel& model) {
  for (size_t i = 0; i < model.operators().size(); ++i) {
    HashModel::Operator& op = model.operators()[i];
    if (!op.is_mine || op.part != HashModel::Part::kExpert) continue;
    const int lane =
        HashModel::lane_of(placement_before, static_cast<int>(before.size()), op.layer, op.expert);
    op.shard = before[static_cast<size_t>(lane)][i];
  }
}

void take_shards(const HashShards& before, uint64_t placement_before, int place, int lanes,
                 HashModel& model) {
  take_experts(before, placement_before, model);
  for (size_t i = 0; i < model.operators().size(); ++i) {
    HashModel::Operator& op = model.operators()[i];
    if (!op.is_mine || op.part == HashModel::Part::kExpert) continue;
    const auto number = [&](uint64_t Shard::*which) {
      return moved(before, i, which, place, lanes);
    };
    op.shard = {number(&Shard::master), number(&Shard::first_moment),
                number(&Shard::second_moment)};
  }
}

std::vector<std::byte> hash_file(const RestingRoles& resting, const TrainedOn& trained_on,
                                 const HashModel& model) {
  const std::vector<int64_t> trained =
      model.rests() ? std::vector<int64_t>() : to_numbers(trained_on);
  std::vector<int64_t> head = {std::ssize(resting), std::ssize(trained)};
  for (const Rank rank : resting) head.push_back(rank.value);
  head.insert(head.end(), trained.begin(), trained.end());
  const auto bytes = std::as_bytes(std::span(head));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  const std::vector<std::byte> state = model.state();
  const size_t kept = model.rests() ? sizeof(int64_t) : state.size();
  file.insert(file.end(), state.begin(), state.begin() + static_cast<std::ptrdiff_t>(kept));
  return file;
}

HashFile read_hash_file(std::span<const std::byte> file) {
  const auto take = [&file](size_t count) {
    CHECK(file.size() >= count * sizeof(int64_t)) << "not a file of the hash model";
    std::vector<int64_t> numbers(count);
    if (count > 0) std::memcpy(numbers.data(), file.data(), count * sizeof(int64_t));
    file = file.subspan(count * sizeof(int64_t));
    return numbers;
  };
  const std::vector<int64_t> counts = take(2);
  HashFile read;
  for (const int64_t rank : take(static_cast<size_t>(counts[0])))
    read.resting.emplace_back(static_cast<int32_t>(rank));
  auto trained_on = trained_on_from(take(static_cast<size_t>(counts[1])));
  CHECK(trained_on.has_value()) << "not a file of the hash model";
  read.trained_on = *std::move(trained_on);
  read.state = file;
  return read;
}

std::vector<Rank> ranks_of_both(const Membership& a, const Membership& b, int stage) {
  const std::vector<Rank> of_a = a.stage_group(stage), of_b = b.stage_group(stage);
  std::vector<Rank> both;
  std::ranges::set_union(of_a, of_b, std::back_inserter(both));
  return both;
}

}  // namespace evermoe
