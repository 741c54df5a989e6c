// Masters and moments narrower than FP32, and products in FP8: what they promise beyond what holds
// for all types.

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/error.h"
#include "comm/in_process/in_process_transport.h"
#include "tensor/fp8_factor.h"
#include "tensor/host_bytes.h"
#include "train/state/optimizer.h"
#include "train/state/state_transfer.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

OperatorSpec two_matrices(int64_t rows = 40) {
  OperatorSpec spec;
  spec.name = "block";
  spec.parameters = {{.name = "matrix", .shape = {rows, 64}, .decayed = true},
                     {.name = "bias", .shape = {1000}, .decayed = false}};
  spec.layout();
  return spec;
}

void on_owners(int count, const std::function<void(Communicator&)>& body) {
  InProcessCluster cluster(count, {.seed = 1});
  cluster.run([&](Rank, Transport& transport) {
    at::set_num_threads(1);
    std::vector<Rank> ranks;
    for (int i = 0; i < count; ++i) ranks.emplace_back(i);
    Communicator owners(transport, ranks, {View(1), kFirstStageGroup, absl::Seconds(5)});
    body(owners);
    transport.close();
  });
}

// A function of the element's place in the operator.
at::Tensor wave(FlatRange range, double salt) {
  return at::arange(range.begin, range.end, at::kDouble).add_(salt).sin_();
}

// Each update in ranges of so many parameters.
void run_updates(OperatorState& state, const TrainConfig& train, int updates, int64_t range) {
  for (int n = 1; n <= updates; ++n) {
    state.shard_gradient().copy_(wave(state.shard(), n).mul_(1e-3));
    StepRecord record;
    record.learning_rate = 1e-3;
    const AdamW adam(train, record, n, at::kCPU);
    for (int64_t begin = 0; begin < state.whole().end; begin += range)
      adam.update({{&state, {begin, std::min(begin + range, state.whole().end)}}});
  }
}

// Master, moments and compute weights after some updates, all owners' shards joined.
std::vector<at::Tensor> updated_state(const TrainConfig& train, const OperatorSpec& spec,
                                      int owners, int updates, int64_t range) {
  std::mutex mutex;
  std::vector<std::vector<at::Tensor>> shards(4,
                                              std::vector<at::Tensor>(static_cast<size_t>(owners)));
  on_owners(owners, [&](Communicator& group) {
    OperatorState state(spec, group, state_types(train));
    state.initialise(5);
    run_updates(state, train, updates, range);
    state.cast_master();
    const std::lock_guard lock(mutex);
    const at::Tensor parts[] = {state.master(), state.exp_avg(), state.exp_avg_sq(),
                                state.shard_compute()};
    for (size_t i = 0; i < 4; ++i) shards[i][static_cast<size_t>(group.index())] = parts[i].clone();
  });
  std::vector<at::Tensor> whole;
  for (const auto& part : shards) whole.push_back(at::cat(part));
  return whole;
}

class NarrowStateTest : public testing::TestWithParam<std::string> {
 protected:
  JobConfig job(const std::vector<std::string>& more = {}) const {
    return tiny_config("qwen-moe", with_types(GetParam(), more));
  }
};

TEST_P(NarrowStateTest, RoundingDoesNotDependOnTheNumberOfOwners) {
  const JobConfig config = job();
  const OperatorSpec spec = two_matrices();
  const auto expected = updated_state(config.train, spec, 1, 4, spec.flat_size);
  for (const int owners : {2, 5}) {
    const auto state = updated_state(config.train, spec, owners, 4, spec.flat_size);
    for (size_t i = 0; i < state.size(); ++i)
      EXPECT_TRUE(at::equal(state[i], expected[i])) << owners << " owners, part " << i;
  }
}

// The update widens 65,536 parameters at a time: of a whole operator, of shards and ranges that
// begin elsewhere.
TEST_P(NarrowStateTest, RoundingDoesNotDependOnRangesOfALargeOperator) {
  const JobConfig config = job();
  const OperatorSpec spec = two_matrices(/*rows=*/3500);
  ASSERT_GT(spec.flat_size, 3 * 65536);
  const auto expected = updated_state(config.train, spec, 1, 2, spec.flat_size);
  for (const int owners : {1, 2, 5}) {
    const auto state = updated_state(config.train, spec, owners, 2, 1111 * kFlatAlignment);
    for (size_t i = 0; i < state.size(); ++i)
      EXPECT_TRUE(at::equal(state[i], expected[i])) << owners << " owners, part " << i;
  }
}

// Each update is far smaller than the distance between two stored numbers: to the nearest, none
// would move anything.
TEST_P(NarrowStateTest, SmallUpdatesAreNotLost) {
  JobConfig config = job();
  config.train.weight_decay = 0;
  on_owners(1, [&](Communicator& group) {
    OperatorState state(two_matrices(), group, state_types(config.train));
    copy_stored(at::full({state.shard().size()}, 1.0, at::kFloat), state.master());
    constexpr int kUpdates = 100;
    for (int n = 1; n <= kUpdates; ++n) {
      state.shard_gradient().fill_(1e-3);
      StepRecord record;
      record.learning_rate = 1e-4;
      AdamW(config.train, record, n, at::kCPU).update({{&state, state.whole()}});
    }
    const double moved = 1 - widened(state.master()).mean().item<double>();
    // AdamW moves a weight by the learning rate while its gradient stays the same.
    EXPECT_NEAR(moved, kUpdates * 1e-4, 0.2 * kUpdates * 1e-4);
  });
}

TEST_P(NarrowStateTest, NothingIsDividedByAVanishedSecondMoment) {
  const JobConfig config = job();
  on_owners(1, [&](Communicator& group) {
    OperatorState state(two_matrices(), group, state_types(config.train));
    StepRecord record;
    record.learning_rate = 1e-3;
    // Beside a gradient that fixes the scale of its block.
    state.shard_gradient().fill_(1e-7);
    state.shard_gradient()[0] = 1;
    AdamW(config.train, record, 1, at::kCPU).update({{&state, state.whole()}});
    EXPECT_LE(widened(state.master()).abs().max().item<double>(), 1.3e-3);
    EXPECT_GT(widened(state.exp_avg_sq()).min().item<double>(), 0);
  });
}

TEST_P(NarrowStateTest, BytesOfAParameterAreThoseOfTheTypes) {
  static const std::map<std::string, double> kTable7 = {{"fp16/fp16/fp16", 6},
                                                        {"fp8/fp32/fp32", 12},
                                                        {"fp8/fp16/fp32", 10},
                                                        {"fp8/fp16/fp8+fp16", 5},
                                                        {"fp8/fp8/fp8+fp16", 4}};
  if (!kTable7.contains(GetParam())) return;  // the others are in no table
  int64_t full = 0, compute = 0, parameters = 0;
  TrainingCluster cluster("bytes");
  const JobConfig config = job();
  const ClusterResult result = cluster.run(config, [&](TrainingRank& self) {
    for (const StageOperator& op : self.trainer().operators()) {
      full += op.bytes.full;
      compute += op.bytes.compute;
    }
    for (const OperatorState* state : self.trainer().operator_states())
      parameters += state->spec().flat_size;
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  const auto count = static_cast<double>(parameters);
  const PartTypes& types = train_types(config.train).state;
  // One byte for 64 elements in FP8, which the table does not count.
  const auto scales = static_cast<double>(std::ranges::count(types, ElementType::kFp8)) / 64;
  EXPECT_EQ(static_cast<double>(full) / count, kTable7.at(GetParam()) + scales);
  const bool is_fp8 = train_types(config.train).compute == ElementType::kFp8;
  EXPECT_EQ(static_cast<double>(compute) / count, is_fp8 ? 1 + 1.0 / 64 : 2);
}

TEST_P(NarrowStateTest, Learns) {
  const JobConfig config =
      job({"train.steps=60", "train.micro_batches=2", "train.micro_batch_size=4",
           "model.sequence_length=32", "model.layers=1", "train.learning_rate=3e-3",
           "train.warmup_steps=5", "parallel.lanes=2"});
  double first = 0, last = 0;
  TrainingCluster cluster("learns");
  const ClusterResult result = cluster.run(config, [&](TrainingRank& self) -> absl::Status {
    RETURN_IF_ERROR(self.steps(1));
    if (self.rank() == Rank(0)) first = self.trainer().last_record().loss;
    RETURN_IF_ERROR(self.steps(39));
    if (self.rank() == Rank(0)) last = self.trainer().last_record().loss;
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_GT(first, 5);
  EXPECT_LT(last, 3.5) << "from " << first;
}

// Saved by two lanes; goes on in FP32 state, and the other way round.
TEST_P(NarrowStateTest, ARunGoesOnWithOtherTypes) {
  const auto with = [&](const std::string& types) {
    return tiny_config("qwen-moe", with_types(types, {"model.layers=2", "parallel.lanes=2",
                                                      "checkpoint.every_steps=0"}));
  };
  const std::string precision = GetParam().substr(0, GetParam().find('/'));
  for (const auto& [from, to] :
       {std::pair(GetParam(), precision), std::pair(precision, GetParam())}) {
    TrainingCluster cluster("other_types");
    const ClusterResult saved = cluster.run(with(from), [](TrainingRank& self) -> absl::Status {
      RETURN_IF_ERROR(self.steps(3));
      return self.close();
    });
    ASSERT_TRUE(saved.status.ok()) << saved.status;
    const ClusterResult loaded = cluster.run(with(to), [](TrainingRank& self) -> absl::Status {
      EXPECT_EQ(self.trainer().training_position().step, Step(3));
      return absl::OkStatus();
    });
    ASSERT_TRUE(loaded.status.ok()) << loaded.status;
    const auto is_root = [&](const std::string& types) {
      const JobConfig config = with(types);
      return type_of(train_types(config.train).state, StatePart::kExpAvgSq) != ElementType::kFp32;
    };
    for (const auto& [name, before] : saved.weights) {
      const at::Tensor wide = widened(before);
      const double step = 0.07 * wide.abs().max().item<double>();
      EXPECT_LT((widened(loaded.weights.at(name)) - wide).abs().max().item<double>(), step) << name;
      at::Tensor old_second = widened(saved.exp_avg_sqs.at(name)),
                 new_second = widened(loaded.exp_avg_sqs.at(name));
      if (!is_root(from)) old_second = old_second.sqrt();
      if (!is_root(to)) new_second = new_second.sqrt();
      EXPECT_LT((new_second - old_second).abs().max().item<double>(),
                0.07 * old_second.abs().max().item<double>())
          << name;
    }
  }
}

// Every pair of types. The smallest values are far below what the largest of their block leaves
// room for, and below what FP16 has.
TEST(OtherTypesTest, ASecondMomentDoesNotVanish) {
  constexpr ElementType kTypes[] = {ElementType::kFp32, ElementType::kFp64, ElementType::kBf16,
                                    ElementType::kFp16, ElementType::kFp8};
  const at::Tensor exponents = at::arange(4 * kFp8BlockElements, at::kDouble).remainder(64) / -1.75;
  const at::Tensor values = at::pow(10.0, exponents);
  for (const ElementType first : kTypes) {
    const at::Tensor from = new_storage(first, values.numel(), at::kCPU);
    copy_part(StatePart::kExpAvgSq, values, from);
    EXPECT_TRUE((widened(from) > 0).all().item<bool>()) << to_string(first);
    for (const ElementType second : kTypes) {
      const at::Tensor into = new_storage(second, values.numel(), at::kCPU);
      copy_part(StatePart::kExpAvgSq, from, into);
      EXPECT_TRUE((widened(into) > 0).all().item<bool>())
          << to_string(first) << " to " << to_string(second);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NarrowStateTest, testing::ValuesIn(narrow_types()),
                         [](const auto& info) { return types_name(info.param); });

// ---- FP8

// Blocks' codes are those of torch's type.
TEST(Fp8Test, CodesAreTorchs) {
  const at::Tensor codes = at::arange(256, at::kByte);
  const at::Tensor torchs = codes.view(at::kFloat8_e4m3fn).to(at::kFloat);
  at::Tensor blocks = at::empty({4, kFp8BlockBytes}, at::kByte);
  blocks.narrow(1, 0, kFp8BlockElements).copy_(codes.view({4, kFp8BlockElements}));
  blocks.narrow(1, kFp8BlockElements, 1).fill_(127);
  const at::Tensor ours = widened(blocks.flatten());
  for (int64_t i = 0; i < 256; ++i) {
    if ((i & 127) == 127) continue;  // NaN, which a block does not use
    EXPECT_EQ(ours[i].item<float>(), torchs[i].item<float>()) << i;
  }
  const at::Tensor values = at::randn({1000 * kFp8BlockElements}, at::kFloat);
  at::Tensor stored = new_storage(ElementType::kFp8, values.numel(), at::kCPU);
  narrow_into(values, stored, {});
  const at::Tensor scales =
      stored.view({-1, kFp8BlockBytes}).narrow(1, kFp8BlockElements, 1).to(at::kFloat) - 127;
  const at::Tensor factor = at::pow(2.0, scales);
  const at::Tensor rounded =
      (values.view({-1, kFp8BlockElements}) / factor).to(at::kFloat8_e4m3fn).to(at::kFloat) *
      factor;
  EXPECT_TRUE(at::equal(widened(stored), rounded.flatten()));
}

TEST(Fp8Test, FactorsAreRoundedWithOneScale) {
  const at::Tensor x = at::randn({50, 64}).mul_(3e-5).to(at::kBFloat16);
  for (const auto& [type, bits] :
       {std::pair(at::kFloat8_e4m3fn, 4), std::pair(at::kFloat8_e5m2, 3)}) {
    const at::Tensor rounded = rounded_to_fp8(x, type);
    EXPECT_EQ(rounded.scalar_type(), at::kBFloat16);
    EXPECT_FALSE(at::equal(rounded, x));
    EXPECT_TRUE(at::equal(rounded_to_fp8(rounded, type), rounded));
    const at::Tensor wide = x.to(at::kFloat);
    const double smallest = wide.abs().max().item<double>() * 1e-3;
    const at::Tensor error = (rounded.to(at::kFloat) - wide).abs() / wide.abs().clamp_min(smallest);
    EXPECT_LE(error.max().item<double>(), std::ldexp(1.0, -bits));
    // A power of two changes nothing: the scale takes it up.
    EXPECT_TRUE(at::equal(rounded_to_fp8(x * 1024, type), rounded * 1024));
  }
  const at::Tensor infinite = at::full({3}, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(at::equal(rounded_to_fp8(infinite, at::kFloat8_e5m2), infinite));
  const at::Tensor zero = at::zeros({3});
  EXPECT_TRUE(at::equal(rounded_to_fp8(zero, at::kFloat8_e5m2), zero));
}

}  // namespace
}  // namespace evermoe
