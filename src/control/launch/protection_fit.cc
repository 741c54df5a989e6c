#include "control/launch/protection_fit.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "config/job_strategy.h"
#include "config/job_topology.h"
#include "experts/placement/rank_state.h"
#include "model/model_shape.h"
#include "recovery/plan/protection_memory.h"

namespace evermoe {
namespace {

// The need of the rank that needs most, with windows of one slot.
MemoryNeed largest_need(const JobConfig& config, int copies) {
  const Topology topology(narrowest_lanes(config), config.model.layers);
  const std::vector<OperatorSpec> model = model_operators(config.model);
  const TrainTypes types = train_types(config.train);
  const Strategy strategy = strategy_of(config);
  const int64_t message = config.train.micro_batch_size * config.model.sequence_length *
                          config.model.hidden * element_bytes(types.activations);
  MemoryNeed largest;
  for (int32_t rank = 0; rank < topology.world_size(); ++rank) {
    const Role role = topology.role_of(Rank(rank));
    const ExpertPlacement placement =
        heaviest_placement(config, topology.lanes(role.stage), role.lane);
    std::vector<OperatorBytes> operators;
    for (const int64_t size : shard_sizes(model, topology, placement, role)) {
      operators.push_back(
          {types.full_bytes(size), types.compute_bytes(size), types.sum_bytes(size)});
    }
    const int64_t log =
        message * boundary_messages(topology, role.stage, config.train.micro_batches);
    const MemoryNeed need = memory_need(operators, 1, {strategy, copies, log});
    if (need.total() > largest.total()) largest = need;
  }
  return largest;
}

// Masters and moments of the rank that has most.
int64_t largest_state(const JobConfig& config) {
  const Topology topology = topology_of(config);
  const std::vector<OperatorSpec> model = model_operators(config.model);
  int64_t largest = 0;
  for (int32_t rank = 0; rank < topology.world_size(); ++rank) {
    const Role role = topology.role_of(Rank(rank));
    const ExpertPlacement placement =
        heaviest_placement(config, topology.lanes(role.stage), role.lane);
    const std::vector<int64_t> sizes = shard_sizes(model, topology, placement, role);
    const int64_t elements = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    largest = std::max(largest, train_types(config.train).full_bytes(elements));
  }
  return largest;
}

}  // namespace

absl::Status check_image_memory(const JobConfig& config) {
  // One is committed, one is being written, and one waits.
  constexpr int kImages = 3;
  const auto in_mib = [](int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; };
  const int64_t state = largest_state(config), budget = config.protection.memory_budget;
  if (kImages * state <= budget) return absl::OkStatus();
  return InvalidInput(absl::StrCat("protection.memory_budget: ", in_mib(budget),
                                   " MiB are too few: a rank's own state takes ", in_mib(state),
                                   " MiB, and it keeps three images of it, ",
                                   in_mib(kImages * state), " MiB; raise it, or take more lanes"));
}

absl::StatusOr<ProtectionFit> fit_protection(const JobConfig& config) {
  const int64_t budget = config.protection.memory_budget;
  const auto wanted = static_cast<int>(config.protection.copies);
  absl::Status status;
  for (int copies = wanted; copies >= std::min(wanted, 1); --copies) {
    const absl::Status fits = check_budget(largest_need(config, copies), budget, 1, copies);
    if (fits.ok()) {
      std::string why;
      if (copies < wanted)
        why = absl::StrCat("copies of each snapshot: ", copies, " instead of ", wanted, "; ",
                           status.message());
      return ProtectionFit{copies, why};
    }
    // What is refused in the end is the least that there is.
    if (status.ok() || copies == std::min(wanted, 1)) status = fits;
  }
  return status;
}

}  // namespace evermoe
