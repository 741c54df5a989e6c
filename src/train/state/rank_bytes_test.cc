// What a rank is expected to hold and send before it is there is what its trainer holds and sends.

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "config/job_data.h"
#include "experts/placement/rank_state.h"
#include "train/step/training_cluster_testing.h"

namespace evermoe {
namespace {

// Full and compute-only bytes of this rank, operator by operator: parts are added up.
std::vector<OperatorBytes> held_by(const Trainer& trainer) {
  std::vector<OperatorBytes> held;
  std::string former;
  for (const StageOperator& op : trainer.operators()) {
    const std::string name = op.name.substr(0, op.name.find('['));
    if (name != former) held.emplace_back();
    former = name;
    held.back().full += op.bytes.full;
    held.back().compute += op.bytes.compute;
  }
  return held;
}

TEST(RankBytesTest, AreThoseOfTheTrainer) {
  const JobConfig config =
      tiny_config("deepseek-moe", {"train.precision=bf16", "model.layers=4", "parallel.stages=2",
                                   "parallel.lanes=[2, 3]", "parallel.expert_replicas=2",
                                   "protection.part_bytes=16KiB"});
  const Topology topology({2, 3}, config.model.layers);
  const std::vector<OperatorSpec> model = model_operators(config.model);
  TrainingCluster cluster("bytes");
  ASSERT_TRUE(
      cluster
          .run(config,
               [&](TrainingRank& self) -> absl::Status {
                 const Role role = topology.role_of(self.rank());
                 const auto placement = ExpertPlacement::uniform(
                     static_cast<int>(config.model.experts), topology.lanes(role.stage), 2);
                 const std::vector<int64_t> sizes = shard_sizes(model, topology, placement, role);
                 const std::vector<OperatorBytes> held = held_by(self.trainer());
                 EXPECT_EQ(sizes.size(), held.size());
                 for (size_t i = 0; i < std::min(sizes.size(), held.size()); ++i) {
                   EXPECT_EQ(held[i].full, 12 * sizes[i]) << "operator " << i;
                   EXPECT_EQ(held[i].compute, 2 * sizes[i]) << "operator " << i;
                 }
                 const int64_t message = config.train.micro_batch_size *
                                         config.model.sequence_length * config.model.hidden * 2;
                 EXPECT_EQ(
                     self.trainer().boundary_bytes(),
                     message * boundary_messages(topology, role.stage, config.train.micro_batches));
                 return absl::OkStatus();
               })
          .status.ok());
}

}  // namespace
}  // namespace evermoe
