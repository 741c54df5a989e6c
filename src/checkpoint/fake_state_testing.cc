#include "checkpoint/fake_state_testing.h"

#include <stdlib.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/split_mix.h"
#include "checkpoint/format/casts.h"
#include "checkpoint/read/state_digest.h"

namespace evermoe {
namespace {

constexpr absl::Duration kDeadline = absl::Minutes(2);

uint64_t mix(uint64_t value) { return split_mix(value + kSplitMixStep); }

// Owner `rank`'s share of an operator.
FlatRange share(FakeCut cut, size_t op, int64_t flat_size, int rank, int world) {
  switch (cut) {
    case FakeCut::kEven: return shard_range(flat_size, world, rank);
    case FakeCut::kWhole:
      return static_cast<int>(op) % world == rank ? FlatRange{0, flat_size} : FlatRange{};
    case FakeCut::kLopsided: {
      const int64_t first = flat_size - (world > 1 ? kFlatAlignment / 2 : 0);
      if (rank == 0) return {0, first};
      return rank == 1 ? FlatRange{first, flat_size} : FlatRange{};
    }
  }
  return {};
}

}  // namespace

std::vector<std::byte> FakeState::bytes(size_t op, StatePart part) const {
  const int64_t count = operators[op].second;
  std::vector<float> values(static_cast<size_t>(count));
  const auto other = seeds.find(operators[op].first);
  const uint64_t chosen = other == seeds.end() ? seed : other->second;
  const uint64_t stream = mix(chosen * 1000 + op * 3 + static_cast<uint64_t>(part));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int32_t>(mix(stream + i))) * 0x1p-31f;
  }
  const ElementType type = type_of(state_types, part);
  std::vector<std::byte> result(static_cast<size_t>(stored_bytes(type, count)));
  cast_elements(ElementType::kFp32, std::as_bytes(std::span(values)), type, result);
  return result;
}

std::vector<std::byte> FakeState::compute_bytes(size_t op) const {
  std::vector<std::byte> result(
      static_cast<size_t>(stored_bytes(compute_type, operators[op].second)));
  cast_elements(state_types[0], bytes(op, StatePart::kMaster), compute_type, result);
  return result;
}

TrainingPosition FakeState::position(Step step) const {
  TrainingPosition result;
  result.step = step;
  result.samples = step.value * 8;
  result.updates_applied = step.value - 1;
  result.loss_scale = 0.1 * static_cast<double>(seed);
  result.loss_scale_good_steps = 3;
  result.model_identity = "fake";
  result.configuration = "[train]\nsteps = 60  # \"quoted\" and \xc3\xa4\n";
  return result;
}

Fingerprint FakeState::digest(Step step) const {
  StateDigest digest;
  for (size_t op = 0; op < operators.size(); ++op) {
    digest.begin_operator(operators[op].first, operators[op].second);
    for (StatePart part : kStateParts) digest.update(bytes(op, part));
    digest.update(compute_bytes(op));
  }
  return digest.finish(position(step));
}

std::vector<ShardSource> FakeState::shards(int rank, int world, FakeCut cut) const {
  std::vector<ShardSource> result;
  for (size_t op = 0; op < operators.size(); ++op) {
    const auto& [name, flat_size] = operators[op];
    const FlatRange range = share(cut, op, flat_size, rank, world);
    const auto bytes_of = [](ElementType type, int64_t elements) {
      return static_cast<size_t>(stored_bytes(type, elements));
    };
    result.push_back(
        {name, flat_size, range,
         [=, this](StatePart part, std::span<std::byte> into) {
           const ElementType type = type_of(state_types, part);
           CHECK(into.size() == bytes_of(type, range.size()));
           std::memcpy(into.data(), bytes(op, part).data() + bytes_of(type, range.begin),
                       into.size());
         },
         [=, this] {
           const std::vector<std::byte> all = compute_bytes(op);
           return fingerprint(std::span(all).subspan(bytes_of(compute_type, range.begin),
                                                     bytes_of(compute_type, range.size())));
         }});
  }
  return result;
}

absl::StatusOr<std::unique_ptr<FakeJob>> FakeJob::open(Files& files, SaverOptions options) {
  auto job = std::make_unique<FakeJob>();
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    ASSIGN_OR_RETURN(std::unique_ptr<CheckpointSaver> saver, CheckpointSaver::open(files, options));
    job->savers_.push_back(std::move(saver));
  }
  return job;
}

absl::Status FakeJob::prepare(const FakeState& state, const TrainingPosition& position,
                              FakeCut cut) {
  return begin_all(state, position, cut, {}, {});
}

absl::Status FakeJob::prepare_partial(const FakeState& state, const TrainingPosition& position,
                                      const FakePartial& partial, FakeCut cut) {
  const std::set<std::string> unsaved(partial.unsaved.begin(), partial.unsaved.end());
  std::vector<ExpertHistory> histories;
  for (const auto& [name, flat_size] : state.operators) {
    if (name.find(".expert.") == std::string::npos) continue;
    const bool is_saved = !unsaved.contains(name);
    histories.push_back(
        {name, is_saved ? 0 : partial.unsaved_tokens, partial.lost_tokens, is_saved});
  }
  return begin_all(state, position, cut, unsaved,
                   {.base = partial.base, .histories = std::move(histories)});
}

absl::Status FakeJob::begin_all(const FakeState& state, const TrainingPosition& position,
                                FakeCut cut, const std::set<std::string>& unsaved,
                                const PartialSave& partial) {
  const int world = static_cast<int>(savers_.size());
  absl::Status first;
  for (int rank = 0; rank < world; ++rank) {
    std::vector<ShardSource> shards = state.shards(rank, world, cut);
    std::erase_if(shards, [&](const auto& shard) { return unsaved.contains(shard.operator_name); });
    PartialSave own = partial;
    if (rank > 0) own.histories.clear();
    first.Update(savers_[static_cast<size_t>(rank)]->begin(position, shards, own));
  }
  for (auto& saver : savers_) first.Update(saver->wait_prepared(kDeadline));
  return first;
}

absl::Status FakeJob::publish(Step step) {
  savers_[0]->publish(step);
  return savers_[0]->wait_published(kDeadline);
}

absl::Status FakeJob::save(const FakeState& state, Step step, FakeCut cut) {
  RETURN_IF_ERROR(prepare(state, state.position(step), cut));
  return publish(step);
}

absl::Status FakeJob::save_partial(const FakeState& state, Step step, const FakePartial& partial,
                                   FakeCut cut) {
  RETURN_IF_ERROR(prepare_partial(state, state.position(step), partial, cut));
  return publish(step);
}

ScratchFolder::ScratchFolder(const std::string& preferred) {
  const char* configured = ::getenv("TMPDIR");
  const std::string base = !preferred.empty() && real_files().is_directory(preferred) ? preferred
                           : configured != nullptr                                    ? configured
                                                                                      : "/tmp";
  path_ = base + "/evermoe_store.XXXXXX";
  CHECK(::mkdtemp(path_.data()) != nullptr) << path_;
}

ScratchFolder::~ScratchFolder() { (void)remove_tree(real_files(), path_); }

}  // namespace evermoe
