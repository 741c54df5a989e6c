#include "planner/cost/step_forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "parallel/pipeline_schedule.h"
#include "planner/cluster_model/collectives.h"
#include "planner/cost/pipeline_time.h"
#include "planner/cost/stage_work.h"

namespace evermoe {
namespace {

constexpr double kUsableMemory = 0.92;

// One world-wide sum of a few numbers: up and down a tree.
double verdict_seconds(const ClusterSpec& cluster) {
  return 2 * std::ceil(std::log2(std::max(2, cluster.gpus()))) * cluster.latency_seconds;
}

absl::Status check_layout(const CostShape& shape, const JobLayout& layout,
                          const ClusterSpec& cluster) {
  const auto stages = static_cast<int64_t>(layout.lanes.size());
  if (stages < 1 || stages > shape.layers) {
    return InvalidInput(absl::StrCat("layout: found ", stages, " stages, allowed: 1 to ",
                                     shape.layers, " (layers)"));
  }
  const int64_t degree = layout.tensor_parallel;
  if (degree < 1 || cluster.gpus_per_node % degree != 0 || shape.heads % degree != 0) {
    return InvalidInput(absl::StrCat("layout: found tensor parallelism of degree ", degree,
                                     ", allowed: divisors of the GPUs of a node (",
                                     cluster.gpus_per_node, ") and of the heads (", shape.heads,
                                     ")"));
  }
  if (layout.gpus() != cluster.gpus()) {
    return InvalidInput(absl::StrCat("layout: found ", layout.gpus(),
                                     " ranks, allowed: the cluster's ", cluster.gpus(), " GPUs (",
                                     cluster.nodes, " nodes of ", cluster.gpus_per_node, ")"));
  }
  const int narrowest = *std::min_element(layout.lanes.begin(), layout.lanes.end());
  if (layout.expert_replicas < 1 || layout.expert_replicas > narrowest) {
    return InvalidInput(absl::StrCat("layout: found ", layout.expert_replicas,
                                     " expert replicas, allowed: 1 to ", narrowest, " (lanes)"));
  }
  if (layout.micro_batches < 1 || layout.micro_batch_size < 1)
    return InvalidInput("layout: allowed: at least one micro-batch of one sequence");
  return absl::OkStatus();
}

// The lanes and micro-batches that the pipeline is played with. Where all widths are equal and
// every round is full, one lane with as many rounds takes as long, and a hundred thousand lanes
// need not be played.
struct PlayedPipeline {
  std::vector<int> lanes;
  int micro_batches = 0;

  explicit PlayedPipeline(const JobLayout& layout)
      : lanes(layout.lanes), micro_batches(static_cast<int>(layout.micro_batches)) {
    const int width = lanes.front();
    const bool is_even =
        std::all_of(lanes.begin(), lanes.end(), [&](int other) { return other == width; });
    if (!is_even || micro_batches % width != 0) return;
    std::fill(lanes.begin(), lanes.end(), 1);
    micro_batches /= width;
  }
};

StepParts step_parts(const std::vector<StageWork>& stages, const JobLayout& layout,
                     const ClusterSpec& cluster) {
  StepParts parts;
  std::vector<double> forward, backward;
  double busiest = 0;
  for (const StageWork& stage : stages) {
    forward.push_back(stage.forward_seconds);
    backward.push_back(stage.backward_seconds);
    busiest = std::max(busiest, stage.rounds * (stage.forward_seconds + stage.backward_seconds));
    parts.reduction_seconds = std::max(parts.reduction_seconds, stage.reduction_seconds);
    parts.update_seconds = std::max(parts.update_seconds, stage.update_seconds);
  }
  const PlayedPipeline played(layout);
  parts.pipeline_seconds = pipeline_seconds(played.lanes, played.micro_batches, forward, backward);
  parts.bubble_share = 1 - busiest / parts.pipeline_seconds;
  parts.verdict_seconds = verdict_seconds(cluster);
  return parts;
}

JobProfile shape_profile(const CostShape& shape, const std::vector<OperatorSpec>& operators,
                         const JobLayout& layout, const ClusterSpec& cluster) {
  JobProfile profile;
  profile.origin = "modelled from first principles";
  profile.tokens_per_step =
      static_cast<double>(layout.micro_batches * layout.micro_batch_size * shape.sequence_length);
  profile.stages = static_cast<int>(layout.lanes.size());
  profile.lanes = layout.lanes;
  profile.lanes_per_node = cluster.gpus_per_node / layout.tensor_parallel;
  profile.nodes = cluster.nodes;
  profile.experts = shape.experts;
  profile.popularity.assign(static_cast<size_t>(shape.experts), 1);
  const ParameterCounts counts = count_parameters(operators, shape);
  profile.state_bytes = kOptimizerBytes * static_cast<double>(counts.total);
  profile.expert_state_bytes = kOptimizerBytes * static_cast<double>(counts.experts);
  return profile;
}

// Memory is that of the stage that needs most, with the rounds that 1F1B keeps in flight there.
void add_stages(const std::vector<StageWork>& stages, const JobLayout& layout,
                JobProfile& profile) {
  const PlayedPipeline played(layout);
  const auto orders = pipeline_schedule(played.lanes, played.micro_batches);
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageWork& stage = stages[s];
    const double activations = stage.activation_bytes_per_round * rounds_in_flight_max(orders[s]) +
                               stage.activation_bytes_again;
    if (stage.state_bytes() + activations > profile.gpu_bytes()) {
      profile.weight_bytes = stage.weight_bytes;
      profile.gradient_bytes = stage.gradient_bytes;
      profile.optimizer_bytes = stage.optimizer_bytes;
      profile.activation_bytes = activations;
    }
    profile.log_bytes = std::max(profile.log_bytes,
                                 static_cast<int64_t>(stage.rounds * stage.sent_bytes_per_round));
    profile.rounds = std::max(profile.rounds, stage.rounds);
    profile.operators_of_stage.push_back(stage.operators);
  }
}

// Experts once or, where lanes are more than experts, on every lane; or once in every node, so that
// tokens need not leave it.
std::set<int> replica_choices(const CostShape& shape, int lanes, int lanes_per_node) {
  std::set<int> choices{static_cast<int>(std::max<int64_t>(1, lanes / shape.experts))};
  if (lanes % lanes_per_node == 0) choices.insert(lanes / lanes_per_node);
  return choices;
}

// Micro-batches of 1, 2, 4, ... sequences for so many stages; none if none divides the batch.
std::vector<JobLayout> layouts_of(const CostShape& shape, int stages, int degree,
                                  const ClusterSpec& cluster, const LayoutChoice& choice) {
  std::vector<JobLayout> layouts;
  const int lanes = cluster.gpus() / stages / degree;
  for (int64_t size = 1; size * lanes <= choice.sequences; size *= 2) {
    if (choice.sequences % (size * lanes) != 0) continue;
    for (const int replicas : replica_choices(shape, lanes, cluster.gpus_per_node / degree)) {
      layouts.push_back({.lanes = std::vector<int>(static_cast<size_t>(stages), lanes),
                         .tensor_parallel = degree,
                         .expert_replicas = replicas,
                         .micro_batches = choice.sequences / size,
                         .micro_batch_size = size,
                         .precision = choice.precision});
    }
  }
  return layouts;
}

StepForecast step_of(const CostShape& shape, const std::vector<OperatorSpec>& operators,
                     const JobLayout& layout, const ClusterSpec& cluster) {
  const std::vector<StageWork> stages = stage_works(shape, operators, layout, cluster);
  StepForecast result;
  result.parts = step_parts(stages, layout, cluster);
  result.profile = shape_profile(shape, operators, layout, cluster);
  add_stages(stages, layout, result.profile);
  result.profile.step_seconds = result.parts.step_seconds();
  result.profile.update_seconds = result.parts.update_seconds;
  result.parts.used_flops_share =
      step_work_per_token(operators, shape) * result.profile.tokens_per_step /
      (cluster.gpu.flops * cluster.gpus() * result.parts.step_seconds());
  return result;
}

constexpr ActivationRecompute kRecomputes[] = {
    ActivationRecompute::kNone, ActivationRecompute::kExperts, ActivationRecompute::kLayer};

// Looks at one layout after the other.
class LayoutSearch {
 public:
  LayoutSearch(const CostShape& shape, const ClusterSpec& cluster, const LayoutChoice& choice)
      : shape_(shape), cluster_(cluster), choice_(choice), operators_(cost_operators(shape)) {}

  absl::Status try_degree(int degree) {
    const int64_t lanes_max = cluster_.gpus() / degree;
    for (int stages = 1; stages <= std::min(lanes_max, shape_.layers); ++stages) {
      if (lanes_max % stages != 0) continue;
      for (const JobLayout& layout : layouts_of(shape_, stages, degree, cluster_, choice_))
        RETURN_IF_ERROR(try_layout(layout));
    }
    return absl::OkStatus();
  }

  const std::optional<JobLayout>& best() const { return best_; }
  bool has_layouts() const { return least_bytes_ < INFINITY; }

  absl::Status nothing_fits() const {
    if (!has_layouts()) {
      return InvalidInput(
          absl::StrCat("batch: found ", choice_.sequences,
                       " sequences, allowed: a multiple of the lanes of some layout of ",
                       cluster_.gpus(), " GPUs over at most ", shape_.layers, " stages"));
    }
    return NoCapacity(absl::StrFormat(
        "no layout fits: the leanest needs %.1f GB of each GPU, which has %.1f GB to use",
        least_bytes_ / 1e9, usable_gpu_bytes(cluster_) / 1e9));
  }

 private:
  // The less is computed again, the shorter the step: the first that fits is the best of them.
  absl::Status try_layout(JobLayout layout) {
    for (const ActivationRecompute recompute : kRecomputes) {
      if (choice_.recompute && *choice_.recompute != recompute) continue;
      layout.recompute = recompute;
      RETURN_IF_ERROR(check_layout(shape_, layout, cluster_));
      const StepForecast forecast = step_of(shape_, operators_, layout, cluster_);
      const double bytes = forecast.profile.gpu_bytes();
      least_bytes_ = std::min(least_bytes_, bytes);
      if (bytes > usable_gpu_bytes(cluster_)) continue;
      if (!best_ || forecast.parts.step_seconds() < best_seconds_) {
        best_ = layout;
        best_seconds_ = forecast.parts.step_seconds();
      }
      break;
    }
    return absl::OkStatus();
  }

  const CostShape& shape_;
  const ClusterSpec& cluster_;
  const LayoutChoice& choice_;
  const std::vector<OperatorSpec> operators_;
  std::optional<JobLayout> best_;
  double best_seconds_ = 0, least_bytes_ = INFINITY;
};

}  // namespace

double usable_gpu_bytes(const ClusterSpec& cluster) {
  return kUsableMemory * cluster.gpu.memory_bytes;
}

Fabric fabric_of(const ClusterSpec& cluster) {
  return {{cluster.gpu.fabric_bytes_per_second, 3e-6},
          {cluster.nic_per_gpu(), cluster.latency_seconds},
          cluster.gpus_per_node};
}

Fabric lane_fabric(const ClusterSpec& cluster, int lanes_per_node) {
  Fabric fabric = fabric_of(cluster);
  fabric.gpus_per_node = lanes_per_node;
  return fabric;
}

const char* to_string(ActivationRecompute recompute) {
  switch (recompute) {
    case ActivationRecompute::kNone: return "none";
    case ActivationRecompute::kExperts: return "experts";
    case ActivationRecompute::kLayer: return "layer";
  }
  return "";
}

absl::StatusOr<ActivationRecompute> parse_recompute(const std::string& name) {
  for (const ActivationRecompute recompute : kRecomputes) {
    if (name == to_string(recompute)) return recompute;
  }
  return InvalidInput(
      absl::StrCat("recompute: found \"", name, "\", allowed: none, experts, layer"));
}

int JobLayout::gpus() const {
  return tensor_parallel * std::accumulate(lanes.begin(), lanes.end(), 0);
}

absl::StatusOr<StepForecast> forecast_step(const CostShape& shape, const JobLayout& layout,
                                           const ClusterSpec& cluster) {
  RETURN_IF_ERROR(check_layout(shape, layout, cluster));
  return step_of(shape, cost_operators(shape), layout, cluster);
}

absl::StatusOr<JobLayout> choose_layout(const CostShape& shape, const ClusterSpec& cluster,
                                        const LayoutChoice& choice) {
  LayoutSearch search(shape, cluster, choice);
  for (int degree = std::max(1, choice.tensor_parallel);
       degree <= cluster.gpus_per_node && !search.best(); degree *= 2) {
    const bool fits_node = cluster.gpus_per_node % degree == 0 && shape.heads % degree == 0;
    if (fits_node || choice.tensor_parallel > 0) RETURN_IF_ERROR(search.try_degree(degree));
    // More GPUs for a lane help where memory is short, not where the batch cannot be dealt.
    if (choice.tensor_parallel > 0 || !search.has_layouts()) break;
  }
  if (!search.best()) return search.nothing_fits();
  return *search.best();
}

}  // namespace evermoe
