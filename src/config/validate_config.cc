#include "config/validate_config.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/limits.h"
#include "config/config_key.h"
#include "config/elastic/elastic_keys.h"
#include "config/experts/experts_keys.h"
#include "config/stragglers/straggler_keys.h"

namespace evermoe {
namespace {

// More operators than this would only be a mistake; each costs about a kilobyte of bookkeeping.
constexpr int64_t kOperatorsMax = 1 << 20;
// In a path: the number of the node.
constexpr char kNodePlace[] = "{node}";

absl::Status validate_attention(const ModelShape& shape, const KeyPlaces& places) {
  if (shape.heads % shape.kv_heads != 0) {
    return not_allowed(places, "model.kv_heads", absl::StrCat(shape.kv_heads),
                       absl::StrCat("a divisor of model.heads (", shape.heads, ")"));
  }
  if (shape.heads * shape.head_dim % 64 != 0) {
    return not_allowed(places, "model.head_dim", absl::StrCat(shape.head_dim),
                       absl::StrCat("a width whose product with model.heads (", shape.heads,
                                    ") is a multiple of 64"));
  }
  return absl::OkStatus();
}

absl::Status validate_routing(const ModelShape& shape, const KeyPlaces& places) {
  if (shape.routing == RoutingKind::kSynthetic) return absl::OkStatus();
  if (shape.routing_skew != 0)
    return not_allowed(places, "model.routing_skew", absl::StrCat(shape.routing_skew),
                       "0, or model.routing = synthetic");
  if (shape.routing_drift_steps != 0)
    return not_allowed(places, "model.routing_drift_steps", absl::StrCat(shape.routing_drift_steps),
                       "0, or model.routing = synthetic");
  return absl::OkStatus();
}

absl::Status validate_moe(const ModelShape& shape, const KeyPlaces& places) {
  if (shape.top_k > shape.experts) {
    return not_allowed(places, "model.top_k", absl::StrCat(shape.top_k),
                       absl::StrCat("at most model.experts (", shape.experts, ")"));
  }
  const int64_t moe_layers = shape.moe_layers_before(shape.layers);
  if (moe_layers == 0) {
    const bool all_dense = shape.dense_first_layers >= shape.layers;
    const char* key = all_dense ? "model.dense_first_layers" : "model.moe_every";
    return not_allowed(
        places, key, absl::StrCat(all_dense ? shape.dense_first_layers : shape.moe_every),
        absl::StrCat("a value that leaves an MoE layer among model.layers (", shape.layers, ")"));
  }
  if (moe_layers * shape.experts > kOperatorsMax) {
    return not_allowed(
        places, "model.experts", absl::StrCat(shape.experts),
        absl::StrCat("at most ", kOperatorsMax / moe_layers, " with ", moe_layers, " MoE layers"));
  }
  return absl::OkStatus();
}

absl::Status validate_lanes(const JobConfig& config, const KeyPlaces& places, size_t stage) {
  const int64_t lanes = config.parallel.lanes[stage];
  const int64_t replicas = config.parallel.expert_replicas;
  if (replicas > lanes) {
    return not_allowed(
        places, "parallel.expert_replicas", absl::StrCat(replicas),
        absl::StrCat("at most the lanes of every stage (stage ", stage, " has ", lanes, ")"));
  }
  if (lanes > config.model.experts * replicas) {
    return not_allowed(
        places, "parallel.lanes", absl::StrCat(lanes, " for stage ", stage),
        absl::StrCat("at most model.experts * parallel.expert_replicas (",
                     config.model.experts * replicas, "), so that each lane has an expert"));
  }
  return absl::OkStatus();
}

absl::Status validate_control(const ControlConfig& control, const KeyPlaces& places) {
  const bool has_tls = control.store.starts_with("etcds://");
  if (has_tls && control.store_authority.empty()) {
    return not_allowed(places, "control.store_authority", "nothing",
                       "a PEM file, for control.store has TLS (etcds://)");
  }
  if (!has_tls && !control.store_authority.empty()) {
    return not_allowed(places, "control.store_authority", control.store_authority,
                       "empty, unless control.store has TLS (etcds://)");
  }
  if (control.store_certificate.empty() != control.store_key.empty()) {
    const bool lacks_key = control.store_key.empty();
    return not_allowed(places, lacks_key ? "control.store_key" : "control.store_certificate",
                       "nothing", "a PEM file: certificate and key belong together");
  }
  return absl::OkStatus();
}

absl::Status validate_topology(const JobConfig& config, const KeyPlaces& places) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.stages > config.model.layers) {
    return not_allowed(places, "parallel.stages", absl::StrCat(parallel.stages),
                       absl::StrCat("at most model.layers (", config.model.layers,
                                    "), so that each stage has a layer"));
  }
  for (size_t stage = 0; stage < parallel.lanes.size(); ++stage) {
    RETURN_IF_ERROR(validate_lanes(config, places, stage));
  }
  if (parallel.world_size() > kJobRanksMax) {
    return not_allowed(places, "parallel.lanes", absl::StrCat(parallel.world_size(), " in all"),
                       absl::StrCat("at most ", kJobRanksMax, " over all stages"));
  }
  return absl::OkStatus();
}

absl::Status validate_partial_experts(const JobConfig& config, const KeyPlaces& places) {
  const ProtectionConfig& protection = config.protection;
  if (protection.strategy != StrategyKind::kPartialExperts) return absl::OkStatus();
  const int64_t experts = config.model.experts;
  if (protection.experts_saved > experts) {
    return not_allowed(places, "protection.experts_saved", absl::StrCat(protection.experts_saved),
                       absl::StrCat("at most model.experts (", experts, ")"));
  }
  const int64_t copied = protection.experts_in_memory;
  if (copied == 0 || (protection.experts_saved <= copied && copied <= experts))
    return absl::OkStatus();
  return not_allowed(places, "protection.experts_in_memory", absl::StrCat(copied),
                     absl::StrCat("protection.experts_saved (", protection.experts_saved,
                                  ") to model.experts (", experts, "), or 0 for all"));
}

absl::Status validate_tiers(const JobConfig& config, const KeyPlaces& places) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  const bool is_partial = config.protection.strategy == StrategyKind::kPartialExperts;
  for (const auto& [key, value] :
       {std::pair("checkpoint.local_directory", checkpoint.local_directory),
        std::pair("checkpoint.store", checkpoint.store)}) {
    if (value.empty() || !is_partial) continue;
    return not_allowed(places, key, value,
                       "empty with protection.strategy = \"partial-experts\", whose checkpoints "
                       "build on older ones in shared storage");
  }
  if (checkpoint.local_directory.empty()) return absl::OkStatus();
  if (checkpoint.every_steps == 0 || checkpoint.local_every_steps <= checkpoint.every_steps)
    return absl::OkStatus();
  return not_allowed(places, "checkpoint.local_every_steps",
                     absl::StrCat(checkpoint.local_every_steps),
                     absl::StrCat("at most checkpoint.every_steps (", checkpoint.every_steps,
                                  "), for shared storage has those steps too"));
}

absl::Status validate_types(const TrainConfig& train, const KeyPlaces& places) {
  const auto written = [](const char* key, const TrainConfig& train) {
    JobConfig config;
    config.train = train;
    return find_config_key(key)->write(config);
  };
  const std::string precision = written("train.precision", train);
  if (!goes_with(train.master, train.precision)) {
    std::vector<std::string> allowed;
    for (const MasterPrecision master : {MasterPrecision::kAuto, MasterPrecision::kFp32,
                                         MasterPrecision::kBf16, MasterPrecision::kFp16}) {
      TrainConfig other = train;
      other.master = master;
      if (goes_with(master, train.precision)) allowed.push_back(written("train.master", other));
    }
    return not_allowed(
        places, "train.master", written("train.master", train),
        absl::StrCat(absl::StrJoin(allowed, " or "), " with train.precision = ", precision));
  }
  if (goes_with(train.moments, train.precision)) return absl::OkStatus();
  return not_allowed(places, "train.moments", written("train.moments", train),
                     absl::StrCat("\"auto\" with train.precision = ", precision));
}

}  // namespace

int64_t ParallelConfig::world_size() const {
  return std::accumulate(lanes.begin(), lanes.end(), int64_t{0});
}

std::string CheckpointConfig::local_directory_of(int64_t node) const {
  return absl::StrReplaceAll(local_directory, {{kNodePlace, absl::StrCat(node)}});
}

const std::string& KeyPlaces::of(const std::string& key) const {
  const auto found = set_at.find(key);
  return found == set_at.end() ? origin : found->second;
}

absl::Status not_allowed(const KeyPlaces& places, const std::string& key, const std::string& found,
                         const std::string& allowed) {
  return InvalidInput(
      absl::StrCat(places.of(key), ": ", key, ": found ", found, ", allowed: ", allowed));
}

absl::Status validate_config(const JobConfig& config, const KeyPlaces& places) {
  RETURN_IF_ERROR(validate_attention(config.model, places));
  RETURN_IF_ERROR(validate_moe(config.model, places));
  RETURN_IF_ERROR(validate_routing(config.model, places));
  RETURN_IF_ERROR(validate_topology(config, places));
  RETURN_IF_ERROR(validate_experts(config, places));
  RETURN_IF_ERROR(validate_partial_experts(config, places));
  RETURN_IF_ERROR(validate_elastic(config, places));
  RETURN_IF_ERROR(validate_stragglers(config, places));
  RETURN_IF_ERROR(validate_types(config.train, places));
  RETURN_IF_ERROR(validate_control(config.control, places));
  return validate_tiers(config, places);
}

absl::Status check_racks(const RunConfig& run) {
  const int64_t nodes = run.nodes + run.spares;
  if (run.racks <= nodes) return absl::OkStatus();
  return InvalidInput(absl::StrCat("run.racks: found ", run.racks,
                                   ", allowed: at most as many as nodes, with spares (", nodes,
                                   ")"));
}

}  // namespace evermoe
