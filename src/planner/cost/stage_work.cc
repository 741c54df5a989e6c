#include "planner/cost/stage_work.h"

#include <algorithm>

#include "experts/placement/expert_placement.h"
#include "parallel/operator_stage.h"
#include "parallel/pipeline_schedule.h"
#include "parallel/topology.h"

namespace evermoe {
namespace {

// Kept per token and layer for backward, as multiples of the hidden width (Korthikanti et al. 2022,
// without attention scores, which are computed again), and per routed token of its expert's width.
constexpr double kActivationBytesPerHidden = 34;
constexpr double kActivationBytesPerExpertHidden = 6;
constexpr double kLogitBytes = 4;

// Of the BF16 peak.
double peak_share(Precision precision) {
  switch (precision) {
    case Precision::kFp32: return 0.5;
    case Precision::kFp64: return 1.0 / 16;
    default: return 1;
  }
}

class StageBuilder {
 public:
  StageBuilder(const CostShape& shape, const JobLayout& layout, const ClusterSpec& cluster,
               int stage)
      : shape_(shape),
        layout_(layout),
        cluster_(cluster),
        gpus_of_lane_(layout.tensor_parallel),
        fabric_(lane_fabric(cluster, std::max(1, cluster.gpus_per_node / layout.tensor_parallel))),
        lanes_(layout.lanes[static_cast<size_t>(stage)]),
        is_first_(stage == 0),
        is_last_(stage + 1 == std::ssize(layout.lanes)),
        placement_(ExpertPlacement::uniform(static_cast<int>(shape.experts), lanes_,
                                            layout.expert_replicas)),
        tokens_(static_cast<double>(layout.micro_batch_size * shape.sequence_length)) {
    work_.rounds = round_count(lanes_, static_cast<int>(layout.micro_batches));
    for (int lane = 0; lane < lanes_; ++lane) {
      if (placement_.experts_on(lane).size() > placement_.experts_on(heaviest_).size())
        heaviest_ = lane;
    }
  }

  // Operators of the stage in canonical order; experts of other lanes are passed over.
  void add(const OperatorSpec& spec) {
    const std::vector<int>& hosted = placement_.experts_on(heaviest_);
    const bool is_expert = spec.kind == OperatorKind::kExpert;
    if (is_expert && !std::binary_search(hosted.begin(), hosted.end(), spec.expert)) return;
    add_compute(spec, is_expert);
    if (spec.kind == OperatorKind::kBlock) add_block(spec);
    if (spec.kind == OperatorKind::kGate) add_exchange();
    if (spec.kind == OperatorKind::kHead) add_head();
  }

  StageWork build() {
    const double boundary = tokens_ * hidden() * width() / gpus_of_lane_;
    const double message = fabric_.across.message(boundary);
    if (!is_last_) work_.forward_seconds += message;
    if (!is_first_) work_.backward_seconds += message;
    work_.sent_bytes_per_round = boundary * (!is_last_ + !is_first_);
    work_.reduction_seconds = gather_seconds(lanes_, kGradientBytes * dense_, fabric_) +
                              gather_seconds(lanes_, width() * dense_, fabric_);
    if (layout_.expert_replicas > 1) {
      // Replicas of an expert are on different nodes.
      work_.reduction_seconds += ring_gather_seconds(
          layout_.expert_replicas, (kGradientBytes + width()) * expert_, fabric_.across);
    }
    return std::move(work_);
  }

 private:
  double hidden() const { return static_cast<double>(shape_.hidden); }
  double width() const { return static_cast<double>(compute_bytes(layout_.precision)); }
  bool recomputes_layers() const { return layout_.recompute == ActivationRecompute::kLayer; }
  bool recomputes(OperatorKind kind) const {
    if (kind == OperatorKind::kExpert) return layout_.recompute != ActivationRecompute::kNone;
    return recomputes_layers() && (kind == OperatorKind::kBlock || kind == OperatorKind::kGate);
  }

  double tokens_through(bool is_expert) const {
    if (!is_expert) return tokens_;
    return tokens_ * static_cast<double>(shape_.top_k) * lanes_ /
           (static_cast<double>(shape_.experts) * layout_.expert_replicas);
  }

  void add_compute(const OperatorSpec& spec, bool is_expert) {
    const double elements = static_cast<double>(spec.flat_size) / gpus_of_lane_,
                 tokens = tokens_through(is_expert);
    const double rate = cluster_.gpu.flops * peak_share(layout_.precision) * cluster_.efficiency *
                        (is_expert ? grouped_product_share(tokens) : 1);
    // No product is faster than its matrix is read.
    auto seconds = [&](double flops) {
      return flops == 0 ? 0
                        : std::max(flops * tokens / gpus_of_lane_ / rate,
                                   width() * elements / cluster_.gpu.memory_bytes_per_second);
    };
    const OperatorWork flops = operator_work(spec, shape_);
    const double forward = seconds(flops.forward), input = seconds(flops.input_gradient),
                 weight = seconds(flops.weight_gradient);
    const double again = recomputes(spec.kind) ? forward : 0;
    work_.forward_seconds += forward;
    work_.backward_seconds += again + input + weight;
    add_state(spec, elements, is_expert, forward + again + input, weight);
  }

  void add_state(const OperatorSpec& spec, double elements, bool is_expert, double passing_seconds,
                 double weight_seconds) {
    const int owners = is_expert ? layout_.expert_replicas : lanes_;
    const auto shard =
        static_cast<double>(shard_range(spec.flat_size, owners, 0).size()) / gpus_of_lane_;
    const double update = kUpdateBytes * shard / cluster_.gpu.memory_bytes_per_second;
    (is_expert ? expert_ : dense_) += elements;
    work_.update_seconds += update;
    work_.weight_bytes += width() * elements;
    work_.gradient_bytes += kGradientBytes * elements;
    work_.optimizer_bytes += kOptimizerBytes * shard;
    OperatorProfile profile{.expert = spec.expert};
    profile.cost = {static_cast<int64_t>((kOptimizerBytes + width()) * shard),
                    static_cast<int64_t>(width() * shard)};
    profile.forward_seconds = work_.rounds * passing_seconds;
    profile.gradient_seconds = work_.rounds * weight_seconds + update;
    work_.operators.push_back(profile);
  }

  // Each way once, and again before the backward pass where layers are computed again.
  void add_communication(double seconds) {
    work_.forward_seconds += seconds;
    work_.backward_seconds += seconds * (recomputes_layers() ? 2 : 1);
  }

  // Between the GPUs of a lane: what each has a part of becomes whole, or the other way round.
  double lane_gather_seconds(double bytes) const {
    return ring_gather_seconds(
        gpus_of_lane_, bytes,
        {cluster_.gpu.fabric_bytes_per_second, fabric_.inside.latency_seconds});
  }

  void add_block(const OperatorSpec& spec) {
    layer_bytes_ = 0;
    const double activations = tokens_ * hidden() * width() / gpus_of_lane_;
    const bool has_ffn = !shape_.is_moe_layer(spec.layer) || shape_.shared_hidden > 0;
    add_communication((has_ffn ? 2 : 1) * 2 * lane_gather_seconds(tokens_ * hidden() * width()));
    double bytes = activations * kActivationBytesPerHidden / 2;
    // Korthikanti's layer has queries, keys, values and the output of attention as wide as the
    // layer.
    if (shape_.latent)
      bytes +=
          activations * std::max(0.0, static_cast<double>(shape_.attention_width()) / hidden() - 4);
    add_layer_bytes(bytes);
    work_.activation_bytes_per_round += recomputes_layers() ? activations : bytes;
  }

  void add_head() {
    work_.forward_seconds += lane_gather_seconds(tokens_ * hidden() * width());
    work_.backward_seconds += lane_gather_seconds(tokens_ * hidden() * width());
    work_.activation_bytes_per_round +=
        tokens_ * static_cast<double>(shape_.vocabulary) * kLogitBytes / gpus_of_lane_;
  }

  // Tokens to experts and back, and their gradients the other way.
  void add_exchange() {
    const double routed = tokens_ * static_cast<double>(shape_.top_k),
                 bytes = routed * hidden() * width();
    const int group = std::max(1, lanes_ / layout_.expert_replicas);
    add_communication(2 * (all_to_all_seconds(group, bytes / gpus_of_lane_, fabric_) +
                           lane_gather_seconds(bytes)));
    // In and out of the experts; and inside, which the GPUs of a lane share.
    const double came = bytes / gpus_of_lane_;
    const double inside = routed * kActivationBytesPerExpertHidden *
                          static_cast<double>(shape_.expert_hidden) * width() / 2 / gpus_of_lane_;
    add_layer_bytes(2 * came + inside);
    if (layout_.recompute == ActivationRecompute::kNone)
      work_.activation_bytes_per_round += 2 * came + inside;
    if (layout_.recompute == ActivationRecompute::kExperts)
      work_.activation_bytes_per_round += came;
  }

  // Of the layer under way, all of its activations: while one is computed again they are all there.
  void add_layer_bytes(double bytes) {
    layer_bytes_ += bytes;
    if (layout_.recompute != ActivationRecompute::kNone)
      work_.activation_bytes_again = std::max(work_.activation_bytes_again, layer_bytes_);
  }

  const CostShape& shape_;
  const JobLayout& layout_;
  const ClusterSpec& cluster_;
  const int gpus_of_lane_;
  const Fabric fabric_;  // between lanes
  const int lanes_;
  const bool is_first_;
  const bool is_last_;
  const ExpertPlacement placement_;
  const double tokens_;  // of a micro-batch
  int heaviest_ = 0;     // lane
  double dense_ = 0;     // elements of the GPU
  double expert_ = 0;
  double layer_bytes_ = 0;  // activations of the layer under way
  StageWork work_;
};

}  // namespace

std::vector<StageWork> stage_works(const CostShape& shape,
                                   const std::vector<OperatorSpec>& operators,
                                   const JobLayout& layout, const ClusterSpec& cluster) {
  const Topology topology(layout.lanes, shape.layers);
  std::vector<StageBuilder> builders;
  for (int stage = 0; stage < topology.stages(); ++stage)
    builders.emplace_back(shape, layout, cluster, stage);
  for (const OperatorSpec& spec : operators)
    builders[static_cast<size_t>(stage_of(spec, topology))].add(spec);
  std::vector<StageWork> works;
  for (StageBuilder& builder : builders) works.push_back(builder.build());
  return works;
}

}  // namespace evermoe
