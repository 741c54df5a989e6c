// Operators whose parts are updated apart: the active parts get exactly the bits of an update of
// the whole, the others keep theirs.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/fingerprint.h"
#include "comm/in_process/in_process_transport.h"
#include "tensor/host_bytes.h"
#include "train/state/operator_shards.h"
#include "train/state/optimizer.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

std::vector<std::byte> bytes_in(const at::Tensor& tensor) {
  const HostReadable host(tensor.contiguous());
  return {host.bytes().begin(), host.bytes().end()};
}

class PartialUpdateTest : public testing::TestWithParam<std::string> {
 protected:
  // `body` on each of the three owners of an operator.
  void run_owners(const std::function<void(const JobConfig&, Communicator& owners)>& body) {
    const JobConfig config = tiny_config("qwen-moe", with_types(GetParam(), {}));
    InProcessCluster cluster(3, {.seed = 1});
    cluster.run([&](Rank, Transport& transport) {
      at::set_num_threads(1);
      Communicator owners(transport, {Rank(0), Rank(1), Rank(2)},
                          {View(1), kFirstStageGroup, absl::Seconds(5)});
      body(config, owners);
      transport.close();
    });
  }
};

// ---- one operator

OperatorSpec small_operator() {
  OperatorSpec spec;
  spec.name = "block";
  for (const int64_t rows : {5, 4, 3}) {
    spec.parameters.push_back(
        {.name = absl::StrCat("matrix", rows), .shape = {rows, 70}, .decayed = true});
    spec.parameters.push_back(
        {.name = absl::StrCat("bias", rows), .shape = {rows * 40}, .decayed = false});
  }
  spec.layout();
  return spec;
}

void fill(OperatorState& state) {
  double salt = 1;
  for (const at::Tensor& tensor :
       {state.master(), state.exp_avg(), state.exp_avg_sq(), state.shard_gradient()}) {
    const bool is_second = tensor.is_same(state.exp_avg_sq());
    const at::Tensor values =
        at::arange(state.shard().size(), at::kDouble).add_(salt).sin_().mul_(0.1);
    copy_stored(is_second ? values.square() : values, tensor);
    salt += 1000;
  }
  state.cast_master();
}

std::vector<std::vector<std::byte>> contents(OperatorState& state) {
  return {bytes_in(state.master()), bytes_in(state.exp_avg()), bytes_in(state.exp_avg_sq()),
          bytes_in(state.compute())};
}

StepRecord an_update() {
  StepRecord record;
  record.learning_rate = 3e-3;
  record.gradient_divisor = 1.7;
  return record;
}

// The update of a step in these ranges.
std::vector<std::vector<std::byte>> updated(const JobConfig& config, Communicator& owners,
                                            const std::vector<FlatRange>& ranges) {
  OperatorState state(small_operator(), owners, state_types(config.train));
  fill(state);
  const AdamW optimizer(config.train, an_update(), 3, at::kCPU);
  for (const FlatRange range : ranges) {
    optimizer.update({{&state, range}});
    cast_masters({{&state, range}});
  }
  return contents(state);
}

TEST_P(PartialUpdateTest, CutsChangeNoBits) {
  run_owners([](const JobConfig& config, Communicator& owners) {
    const OperatorSpec spec = small_operator();
    const auto whole = updated(config, owners, {{0, spec.flat_size}});
    ASSERT_NE(whole, updated(config, owners, {})) << "nothing is updated";
    bool is_decay_cut_off = false;
    for (int64_t first = 0; first <= spec.flat_size; first += kFlatAlignment) {
      for (int64_t second = first; second <= spec.flat_size; second += kFlatAlignment) {
        is_decay_cut_off =
            is_decay_cut_off || (first < spec.decayed_size && spec.decayed_size < second);
        ASSERT_EQ(updated(config, owners, {{second, spec.flat_size}, {0, first}, {first, second}}),
                  whole)
            << "cut at " << first << " and " << second;
      }
    }
    EXPECT_TRUE(is_decay_cut_off) << "no part has elements with and without weight decay";
  });
}

TEST_P(PartialUpdateTest, OperatorsThatAreUpdatedTogetherHaveTheBitsOfEachAlone) {
  run_owners([](const JobConfig& config, Communicator& owners) {
    const OperatorSpec spec = small_operator();
    const std::vector<FlatRange> parts = {{0, 2 * kFlatAlignment},
                                          {2 * kFlatAlignment, spec.flat_size}};
    OperatorState first(spec, owners, state_types(config.train)),
        second(spec, owners, state_types(config.train));
    fill(first);
    fill(second);
    const AdamW optimizer(config.train, an_update(), 3, at::kCPU);
    const std::vector<OperatorRange> ranges = {
        {&first, parts[0]}, {&second, second.whole()}, {&first, parts[1]}};
    optimizer.update(ranges);
    cast_masters(ranges);
    EXPECT_EQ(contents(first), updated(config, owners, parts));
    EXPECT_EQ(contents(second), contents(first));
  });
}

TEST_P(PartialUpdateTest, NothingOutsideTheRangeChanges) {
  run_owners([](const JobConfig& config, Communicator& owners) {
    const OperatorSpec spec = small_operator();
    const OperatorState layout(spec, owners, state_types(config.train));
    const auto whole = updated(config, owners, {layout.whole()});
    const auto before = updated(config, owners, {});
    const FlatRange active{2 * kFlatAlignment, spec.flat_size - 5 * kFlatAlignment};
    const auto after = updated(config, owners, {active});
    const FlatRange own = layout.in_shard(active);
    for (size_t i = 0; i < whole.size(); ++i) {
      const bool is_shard = i < 3;
      const auto blocks =
          static_cast<size_t>((is_shard ? layout.shard().size() : spec.flat_size) / kFlatAlignment);
      const size_t size = whole[i].size() / blocks;
      const int64_t shift = is_shard ? 0 : layout.shard().begin;
      for (size_t at = 0; at < whole[i].size(); ++at) {
        const int64_t element = static_cast<int64_t>(at / size) * kFlatAlignment - shift;
        const bool is_active = own.begin <= element && element < own.end;
        ASSERT_EQ(after[i][at], (is_active ? whole : before)[i][at])
            << "tensor " << i << ", block from element " << element;
      }
    }
  });
}

// ---- whole jobs

JobConfig partial_job(const std::string& types, const std::vector<std::string>& more) {
  std::vector<std::string> settings =
      with_types(types, {"train.micro_batches=5", "train.micro_batch_size=1", "train.steps=6",
                         "model.sequence_length=16", "parallel.stages=2", "parallel.lanes=[2, 3]",
                         "parallel.expert_replicas=2"});
  settings.insert(settings.end(), more.begin(), more.end());
  return tiny_config("qwen-moe", settings);
}

// Of all ranks' masters, moments and compute weights after some steps; and how many parts they were
// in.
std::pair<std::map<int, std::string>, size_t> train_some(const JobConfig& config) {
  std::map<int, std::string> digests;
  size_t parts = 0;
  TrainingCluster cluster("parts");
  const absl::Status status =
      cluster
          .run(config,
               [&](TrainingRank& self) -> absl::Status {
                 RETURN_IF_ERROR(self.steps(4));
                 FingerprintStream stream;
                 for (OperatorState* state : self.trainer().operator_states()) {
                   for (const auto& bytes : contents(*state)) stream.update(bytes);
                 }
                 digests[self.rank().value] = to_hex(stream.finish());
                 parts += self.trainer().operators().size();
                 return absl::OkStatus();
               })
          .status;
  EXPECT_TRUE(status.ok()) << status;
  return {digests, parts};
}

TEST_P(PartialUpdateTest, PartsOfAnySizeTrainTheSameBits) {
  const auto [expected, operators] =
      train_some(partial_job(GetParam(), {"protection.part_bytes=1TiB"}));
  EXPECT_EQ(expected.size(), 5);
  for (const char* limit : {"1KiB", "7000", "100KiB"}) {
    const auto [digests, parts] =
        train_some(partial_job(GetParam(), {std::string("protection.part_bytes=") + limit}));
    EXPECT_EQ(digests, expected) << limit;
    EXPECT_GT(parts, operators) << limit << " cuts nothing";
  }
}

// ---- a step of a catch-up

std::vector<std::byte> captured(const Trainer& trainer, int part, SnapshotKind kind) {
  const OperatorBytes& bytes = trainer.operators()[static_cast<size_t>(part)].bytes;
  std::vector<std::byte> into(
      static_cast<size_t>(kind == SnapshotKind::kFull ? bytes.full : bytes.compute));
  trainer.capture(part, kind, 0, into);
  return into;
}

struct Snapshot {
  std::vector<std::byte> full, compute;
};

std::vector<Snapshot> snapshots_of(const Trainer& trainer) {
  std::vector<Snapshot> snapshots;
  for (int i = 0; i < static_cast<int>(trainer.operators().size()); ++i) {
    snapshots.push_back({captured(trainer, i, SnapshotKind::kFull),
                         captured(trainer, i, SnapshotKind::kComputeOnly)});
  }
  return snapshots;
}

// Active parts from full snapshots, the others from compute-only ones; whatever was there is
// overwritten.
absl::Status restore(Trainer& trainer, const std::vector<Snapshot>& snapshots,
                     const ActiveOperators& active) {
  std::vector<int> all;
  for (int i = 0; i < static_cast<int>(active.size()); ++i) {
    const Snapshot& from = snapshots[static_cast<size_t>(i)];
    if (active[static_cast<size_t>(i)])
      trainer.restore(i, SnapshotKind::kFull, 0, from.full);
    else
      trainer.restore(i, SnapshotKind::kComputeOnly, 0, from.compute);
    all.push_back(i);
  }
  return trainer.complete_restore(all);
}

// Different for the parts of one operator, the same on every rank.
ActiveOperators draw_active(const std::vector<StageOperator>& operators, int draw) {
  ActiveOperators active;
  for (const StageOperator& op : operators) {
    const std::string key = absl::StrCat(op.name, "/", draw);
    active.push_back(fingerprint(std::as_bytes(std::span(key.data(), key.size()))).low % 4 <
                     static_cast<uint64_t>(draw % 3 + 1));
  }
  return active;
}

bool is_zero(const std::vector<std::byte>& bytes, size_t begin) {
  return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end(),
                     [](std::byte b) { return b == std::byte{0}; });
}

void expect_parts(const Trainer& trainer, const ActiveOperators& active,
                  const std::vector<Snapshot>& before, const std::vector<Snapshot>& dense,
                  bool is_master_compute) {
  const std::vector<Snapshot> now = snapshots_of(trainer);
  for (size_t i = 0; i < active.size(); ++i) {
    const std::string& name = trainer.operators()[i].name;
    if (active[i]) {
      EXPECT_EQ(now[i].full, dense[i].full) << name;
      EXPECT_EQ(now[i].compute, dense[i].compute) << name;
    } else {
      EXPECT_EQ(now[i].compute, before[i].compute) << name << " is frozen, but changed";
      EXPECT_TRUE(is_zero(now[i].full, is_master_compute ? now[i].compute.size() : 0))
          << name << " is frozen, but was updated";
    }
  }
}

// Operators of which some parts are active and some are not.
int mixed_operators(Trainer& trainer) {
  return static_cast<int>(
      std::ranges::count_if(trainer.operator_states(), [](const OperatorState* state) {
        int64_t active = 0;
        for (const FlatRange range : state->active()) active += range.size();
        return active > 0 && active < state->spec().flat_size;
      }));
}

TEST_P(PartialUpdateTest, ActivePartsGetTheBitsOfTheDenseStepAndFrozenOnesStay) {
  const JobConfig config = partial_job(GetParam(), {"protection.part_bytes=8KiB"});
  const bool is_master_compute = train_types(config.train).is_master_compute();
  int mixed = 0;
  TrainingCluster cluster("mixed");
  const absl::Status status =
      cluster
          .run(config,
               [&](TrainingRank& self) -> absl::Status {
                 Trainer& trainer = self.trainer();
                 RETURN_IF_ERROR(self.steps(2));
                 const std::vector<Snapshot> before = snapshots_of(trainer);
                 const RecordBytes position = trainer.position();
                 ASSIGN_OR_RETURN(const Findings verdict, self.train(self.all_active()));
                 RETURN_IF_ERROR(trainer.apply(verdict, self.all_active(),
                                               [](int) { return absl::OkStatus(); }));
                 EXPECT_TRUE(trainer.last_record().applied);
                 const std::vector<Snapshot> dense = snapshots_of(trainer);
                 for (int draw = 0; draw < 4; ++draw) {
                   const ActiveOperators active = draw_active(trainer.operators(), draw);
                   RETURN_IF_ERROR(restore(trainer, before, active));
                   RETURN_IF_ERROR(trainer.set_position(position));
                   RETURN_IF_ERROR(self.train(active).status());
                   mixed += mixed_operators(trainer);
                   RETURN_IF_ERROR(
                       trainer.apply(verdict, active, [](int) { return absl::OkStatus(); }));
                   expect_parts(trainer, active, before, dense, is_master_compute);
                 }
                 return absl::OkStatus();
               })
          .status;
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(mixed, 0);
}

// Of an operator with one active part all gradients are computed.
TEST_P(PartialUpdateTest, OnlyGradientsOfActivePartsAreTold) {
  const JobConfig config = partial_job(GetParam(), {"protection.part_bytes=8KiB"});
  int mixed = 0;
  TrainingCluster cluster("told");
  const absl::Status status =
      cluster
          .run(config,
               [&](TrainingRank& self) -> absl::Status {
                 Trainer& trainer = self.trainer();
                 const std::vector<StageOperator>& operators = trainer.operators();
                 const ActiveOperators active = draw_active(operators, 1);
                 std::vector<int> told(active.size());
                 RETURN_IF_ERROR(
                     self.train(active, [&](int part) { ++told[static_cast<size_t>(part)]; })
                         .status());
                 mixed += mixed_operators(trainer);
                 for (size_t part = 0; part < active.size(); ++part) {
                   if (operators[part].bytes.gradients == 0) continue;
                   EXPECT_EQ(told[part], active[part] ? 1 : 0) << operators[part].name;
                 }
                 return absl::OkStatus();
               })
          .status;
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(mixed, 0);
}

// Whoever captures may still be reading a part while others of its operator are written already.
TEST_P(PartialUpdateTest, EveryActivePartIsAnnouncedBeforeItIsWritten) {
  const JobConfig config = partial_job(GetParam(), {"protection.part_bytes=8KiB"});
  TrainingCluster cluster("announced");
  const absl::Status status =
      cluster
          .run(config,
               [&](TrainingRank& self) -> absl::Status {
                 Trainer& trainer = self.trainer();
                 RETURN_IF_ERROR(self.steps(2));
                 const std::vector<Snapshot> before = snapshots_of(trainer);
                 const ActiveOperators active = draw_active(trainer.operators(), 1);
                 std::vector<int> announced;
                 RETURN_IF_ERROR(self.step(active, [&](int part) {
                   EXPECT_EQ(captured(trainer, part, SnapshotKind::kFull),
                             before[static_cast<size_t>(part)].full)
                       << "written before";
                   EXPECT_EQ(captured(trainer, part, SnapshotKind::kComputeOnly),
                             before[static_cast<size_t>(part)].compute)
                       << "written before";
                   announced.push_back(part);
                   return absl::OkStatus();
                 }));
                 const std::vector<Snapshot> after = snapshots_of(trainer);
                 for (int i = 0; i < static_cast<int>(active.size()); ++i) {
                   const auto part = static_cast<size_t>(i);
                   const bool is_announced = std::ranges::count(announced, i) == 1;
                   const bool is_changed = after[part].full != before[part].full;
                   EXPECT_TRUE(is_announced || !is_changed) << trainer.operators()[part].name;
                   if (trainer.operators()[part].bytes.full == 0) continue;
                   EXPECT_EQ(is_announced, active[part]) << trainer.operators()[part].name;
                 }
                 return absl::OkStatus();
               })
          .status;
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(All, PartialUpdateTest, testing::ValuesIn(all_types()),
                         [](const auto& info) { return types_name(info.param); });

}  // namespace
}  // namespace evermoe
