// Snapshots of shards: what is captured comes back bit for bit, in whatever pieces it travels.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "comm/in_process/in_process_transport.h"
#include "tensor/host_bytes.h"
#include "train/state/operator_shards.h"
#include "train/step/rank_model.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

constexpr int kLanes = 3;
constexpr int64_t kOddSizes[] = {29, 64, 1001, 4099};

std::vector<std::byte> bytes_of(const at::Tensor& tensor) {
  const auto bytes = HostReadable(tensor.contiguous()).bytes();
  return {bytes.begin(), bytes.end()};
}

// The operators of a stage on one lane, with contents that depend on `seed`.
struct Lane {
  Lane(const JobConfig& config, Transport& transport, int64_t seed)
      : types(state_types(config.train)),
        group(transport, {Rank(0), Rank(1), Rank(2)},
              {View(1), kFirstStageGroup, absl::Seconds(5)}) {
    for (const OperatorSpec& spec :
         operators_of_stage(config.model, Topology({kLanes}, config.model.layers), 0)) {
      specs.push_back(spec);
      // Every lane lacks some experts.
      if (spec.kind == OperatorKind::kExpert && spec.expert % kLanes == group.index()) continue;
      states.push_back(std::make_unique<OperatorState>(spec, group, types));
      own.push_back(states.back().get());
    }
    for (OperatorState* state : own) {
      int64_t salt = seed + static_cast<int64_t>(state->spec().name.size());
      for (at::Tensor* part : {&state->exp_avg(), &state->exp_avg_sq(), &state->master()}) {
        const int64_t size = state->shard().size();
        copy_stored(at::arange(size, at::kDouble).add_(static_cast<double>(salt)).sin_(), *part);
        salt += 17;
      }
      state->cast_master();
    }
    shards = std::make_unique<OperatorShards>(config, types, specs, LayerPlacements(), own);
  }

  std::vector<std::byte> capture(int op, SnapshotKind kind, int64_t piece) const {
    const OperatorBytes& bytes = shards->inventory()[static_cast<size_t>(op)].bytes;
    std::vector<std::byte> all(
        static_cast<size_t>(kind == SnapshotKind::kFull ? bytes.full : bytes.compute));
    for (size_t at = 0; at < all.size(); at += static_cast<size_t>(piece)) {
      shards->capture(op, kind, static_cast<int64_t>(at),
                      std::span(all).subspan(at, std::min<size_t>(piece, all.size() - at)));
    }
    return all;
  }
  // Pieces in the order that is hardest: the last one first.
  void restore(int op, SnapshotKind kind, const std::vector<std::byte>& all, int64_t piece) const {
    const auto count = (static_cast<int64_t>(all.size()) + piece - 1) / piece;
    for (int64_t i = count - 1; i >= 0; --i) {
      const auto at = static_cast<size_t>(i * piece);
      shards->restore(op, kind, i * piece,
                      std::span(all).subspan(at, std::min<size_t>(piece, all.size() - at)));
    }
  }

  int count() const { return static_cast<int>(shards->inventory().size()); }

  StateTypes types;
  Communicator group;
  std::vector<OperatorSpec> specs;
  std::vector<std::unique_ptr<OperatorState>> states;
  std::vector<OperatorState*> own;
  std::unique_ptr<OperatorShards> shards;
};

struct ShardCase {
  std::string types;
  std::string part_bytes;
  bool is_cut() const { return part_bytes != "1TiB"; }
};

class OperatorShardsTest : public testing::TestWithParam<ShardCase> {
 protected:
  void on_every_lane(const std::function<void(const JobConfig&, Transport&)>& body) const {
    const JobConfig config = tiny_config(
        "qwen-moe", with_types(GetParam().types, {"model.layers=1", "protection.part_bytes=" +
                                                                        GetParam().part_bytes}));
    InProcessCluster cluster(kLanes, {.seed = 1});
    cluster.run([&](Rank, Transport& transport) {
      at::set_num_threads(1);
      body(config, transport);
      transport.close();
    });
  }
};

TEST_P(OperatorShardsTest, FullSnapshotsComeBackInOddPieces) {
  on_every_lane([](const JobConfig& config, Transport& transport) {
    const Lane from(config, transport, 1);
    for (const int64_t piece : kOddSizes) {
      const Lane to(config, transport, 2);
      for (int op = 0; op < from.count(); ++op) {
        const auto i = static_cast<size_t>(op);
        if (from.shards->state(op) == nullptr) {
          EXPECT_EQ(
              from.shards->inventory()[i].bytes.full + from.shards->inventory()[i].bytes.compute,
              0);
          continue;
        }
        to.restore(op, SnapshotKind::kFull, from.capture(op, SnapshotKind::kFull, piece + 2),
                   piece);
      }
      for (size_t held = 0; held < from.own.size(); ++held) {
        OperatorState& expected = *from.own[held];
        OperatorState& actual = *to.own[held];
        ASSERT_NE(bytes_of(Lane(config, transport, 2).own[0]->master()),
                  bytes_of(from.own[0]->master()));
        EXPECT_EQ(bytes_of(actual.master()), bytes_of(expected.master()))
            << expected.spec().name << " by " << piece;
        EXPECT_EQ(bytes_of(actual.exp_avg()), bytes_of(expected.exp_avg()))
            << expected.spec().name << " by " << piece;
        EXPECT_EQ(bytes_of(actual.exp_avg_sq()), bytes_of(expected.exp_avg_sq()))
            << expected.spec().name << " by " << piece;
        EXPECT_EQ(bytes_of(actual.shard_compute()), bytes_of(expected.shard_compute()))
            << expected.spec().name << " by " << piece;
      }
    }
  });
}

TEST_P(OperatorShardsTest, ComputeOnlySnapshotsBringNothingElse) {
  on_every_lane([](const JobConfig& config, Transport& transport) {
    const Lane from(config, transport, 1);
    for (const int64_t piece : kOddSizes) {
      const Lane to(config, transport, 2);
      for (int op = 0; op < from.count(); ++op) {
        if (from.shards->state(op) == nullptr) continue;
        to.restore(op, SnapshotKind::kComputeOnly,
                   from.capture(op, SnapshotKind::kComputeOnly, piece + 2), piece);
      }
      for (size_t held = 0; held < from.own.size(); ++held) {
        OperatorState& expected = *from.own[held];
        OperatorState& actual = *to.own[held];
        EXPECT_EQ(bytes_of(actual.shard_compute()), bytes_of(expected.shard_compute()))
            << expected.spec().name << " by " << piece;
        EXPECT_EQ(actual.exp_avg().count_nonzero().item<int64_t>(), 0) << expected.spec().name;
        EXPECT_EQ(actual.exp_avg_sq().count_nonzero().item<int64_t>(), 0) << expected.spec().name;
        if (!to.types.stored.is_master_compute()) {
          EXPECT_EQ(actual.master().count_nonzero().item<int64_t>(), 0) << expected.spec().name;
        }
      }
    }
  });
}

TEST_P(OperatorShardsTest, LanesAgreeOnWholesAndHaveAllOfThem) {
  std::vector<std::vector<StageOperator>> inventories(kLanes);
  on_every_lane([&](const JobConfig& config, Transport& transport) {
    inventories[static_cast<size_t>(transport.rank().value)] =
        Lane(config, transport, 1).shards->inventory();
  });
  for (size_t i = 0; i < inventories[0].size(); ++i) {
    int64_t full = 0, compute = 0;
    for (const auto& inventory : inventories) {
      EXPECT_EQ(inventory[i].name, inventories[0][i].name);
      EXPECT_EQ(inventory[i].whole.full, inventories[0][i].whole.full);
      EXPECT_EQ(inventory[i].tokens, inventories[0][i].tokens);
      full += inventory[i].bytes.full;
      compute += inventory[i].bytes.compute;
    }
    // Experts miss a lane here, which in a real job owns no shard of them.
    if (inventories[0][i].name.find("expert") != std::string::npos) continue;
    EXPECT_EQ(full, inventories[0][i].whole.full) << inventories[0][i].name;
    EXPECT_EQ(compute, inventories[0][i].whole.compute) << inventories[0][i].name;
  }
}

TEST_P(OperatorShardsTest, NothingOutsideAPartChanges) {
  on_every_lane([](const JobConfig& config, Transport& transport) {
    const Lane from(config, transport, 1);
    const Lane untouched(config, transport, 2);
    for (const SnapshotKind kind : {SnapshotKind::kFull, SnapshotKind::kComputeOnly}) {
      const Lane to(config, transport, 2);
      for (int op = 0; op < from.count(); op += 2) {
        if (from.shards->state(op) != nullptr)
          to.restore(op, kind, from.capture(op, kind, 1001), 29);
      }
      for (int op = 1; op < from.count(); op += 2) {
        if (from.shards->state(op) == nullptr) continue;
        for (const SnapshotKind seen : {SnapshotKind::kFull, SnapshotKind::kComputeOnly}) {
          ASSERT_EQ(to.capture(op, seen, 4099), untouched.capture(op, seen, 4099))
              << to.shards->inventory()[static_cast<size_t>(op)].name
              << " changed with its neighbours";
        }
      }
    }
  });
}

TEST_P(OperatorShardsTest, PartsAreSmallEnoughAndMakeUpTheirOperators) {
  on_every_lane([&](const JobConfig& config, Transport& transport) {
    const Lane lane(config, transport, 1);
    std::map<std::string, OperatorBytes> wholes;
    std::map<std::string, int64_t> ends;
    std::map<std::string, std::set<int>> experts;
    for (int op = 0; op < lane.count(); ++op) {
      const StageOperator& part = lane.shards->inventory()[static_cast<size_t>(op)];
      const std::string name = part.name.substr(0, part.name.find('['));
      experts[name].insert(part.expert);
      wholes[name].full += part.whole.full;
      wholes[name].compute += part.whole.compute;
      EXPECT_EQ(lane.shards->range(op).begin, std::exchange(ends[name], lane.shards->range(op).end))
          << part.name;
      EXPECT_LE(part.whole.full,
                std::max(config.protection.part_bytes, kFlatAlignment * 3 * int64_t{8}))
          << part.name;
      if (lane.shards->state(op) == nullptr) continue;
      EXPECT_EQ(lane.shards->index_of(*lane.shards->state(op), lane.shards->range(op)), op)
          << part.name;
    }
    ASSERT_EQ(wholes.size(), lane.specs.size());
    for (const OperatorSpec& spec : lane.specs) {
      EXPECT_EQ(experts[spec.name], std::set<int>{spec.expert})
          << spec.name << ", in the only layer";
      EXPECT_EQ(ends[spec.name], spec.flat_size);
      EXPECT_EQ(wholes[spec.name].full, lane.types.stored.full_bytes(spec.flat_size));
      EXPECT_EQ(wholes[spec.name].compute, lane.types.stored.compute_bytes(spec.flat_size));
    }
    EXPECT_EQ(static_cast<size_t>(lane.count()) > lane.specs.size(), GetParam().is_cut());
  });
}

TEST_P(OperatorShardsTest, PartsMakeTheirRangesActiveAndStatesComeOnce) {
  on_every_lane([](const JobConfig& config, Transport& transport) {
    const Lane lane(config, transport, 1);
    ActiveOperators active(static_cast<size_t>(lane.count()));
    for (size_t i = 0; i < active.size(); ++i) active[i] = i % 3 != 1;
    lane.shards->set_active(active);
    std::map<OperatorState*, std::vector<FlatRange>> expected;
    std::vector<int> all;
    for (int op = 0; op < lane.count(); ++op) {
      all.push_back(op);
      OperatorState* const state = lane.shards->state(op);
      if (state != nullptr && active[static_cast<size_t>(op)])
        expected[state].push_back(lane.shards->range(op));
    }
    for (OperatorState* state : lane.own) {
      EXPECT_EQ(state->active(), expected[state]) << state->spec().name;
      EXPECT_EQ(state->is_frozen(), expected[state].empty()) << state->spec().name;
    }
    EXPECT_EQ(lane.shards->states_of(all), lane.own);
    EXPECT_TRUE(lane.shards->states_of({}).empty());
  });
}

std::vector<ShardCase> cases() {
  std::vector<ShardCase> all;
  for (const std::string& types : all_types()) {
    for (const char* part_bytes : {"1TiB", "20000"}) all.push_back({types, part_bytes});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, OperatorShardsTest, testing::ValuesIn(cases()), [](const auto& info) {
  return types_name(info.param.types) + (info.param.is_cut() ? "_in_parts" : "");
});

}  // namespace
}  // namespace evermoe
