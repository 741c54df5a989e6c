// A job's configuration: everything that determines its bits, and how it is run.
//
// The text form is TOML with the tables [model] [train] [data] [parallel] [protection] [checkpoint]
// [evaluate] [run] and more; keys are the field names below (docs/configuration.md lists them all).
// `model.preset` names the shape that the other model keys then change, `model.style` the parts it
// is made of: in the file and again among the settings the preset comes first, then the style, then
// all other keys. Unknown keys, wrong types, values out of range and impossible combinations are
// InvalidInput with one line that says file and line (or "--set"), the key, what was found and what
// is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "config/precision.h"
#include "model/model_shape.h"
#include "protection/partial_experts/expert_selection.h"
#include "protection/strategy/strategy.h"

namespace evermoe {

enum class LearningRateShape { kConstant, kCosine, kWsd };
// What is done about a step whose loss or gradients are not finite for the first time, beside
// skipping it (train/step/examination.h): nothing; the role that made the first such number is
// played anew elsewhere, to tell a machine at fault from samples or a model; and samples at fault
// are never trained again.
enum class NonFinitePolicy { kSkip, kExamine, kQuarantine };
// Which activations are computed again in the backward pass instead of being kept.
enum class Recompute { kNone, kExperts, kLayer };
// What a worker computes on. kAuto: GPUs where libtorch and the machine have them, else CPUs.
enum class DeviceChoice { kAuto, kCpu, kCuda };
std::vector<std::pair<std::string, DeviceChoice>> device_choices();  // by their names
std::string to_string(DeviceChoice choice);

struct TrainConfig {
  int64_t steps = 100;
  uint64_t seed = 1;
  Precision precision = Precision::kFp32;
  MasterPrecision master = MasterPrecision::kAuto;
  MomentPrecision moments = MomentPrecision::kAuto;
  int64_t micro_batches = 8;     // of a whole step, over all lanes
  int64_t micro_batch_size = 2;  // sequences in one micro-batch
  double learning_rate = 1e-3;   // peak
  double final_learning_rate = 1e-4;
  int64_t warmup_steps = 10;
  LearningRateShape schedule = LearningRateShape::kCosine;
  int64_t decay_steps = 0;     // wsd: length of the last, falling part
  int64_t schedule_steps = 0;  // that the schedule is made for; 0: `steps`
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;                 // 0: no clipping
  double initial_loss_scale = 65536;      // fp16 only, a power of two
  int64_t loss_scale_growth_steps = 200;  // fp16: doubled after so many steps without overflow
  int64_t skipped_steps_max =
      100;  // the run ends after so many in a row; see train/step/divergence.h
  NonFinitePolicy non_finite = NonFinitePolicy::kSkip;
  Recompute recompute = Recompute::kNone;
  DeviceChoice device = DeviceChoice::kAuto;
  int64_t deferred_bytes = int64_t{256}
                           << 20;  // activations kept for gradients of weights that are put off
  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

inline TrainTypes train_types(const TrainConfig& train) {
  return train_types(train.precision, train.master, train.moments);
}

struct DataConfig {
  std::string path;  // text file or token file (".tokens"); relative to the configuration file
  std::string tokenizer = "bytes";  // "bytes", or a SentencePiece .model file
  std::string validation_path;      // empty: the last part of `path` is held out
  double validation_fraction = 0.1;
  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

struct ParallelConfig {
  int64_t stages = 1;
  // Lanes of each stage; one entry per stage after validation. In TOML a number or an array.
  std::vector<int64_t> lanes = {1};
  int64_t expert_replicas = 1;  // instances of every expert in its stage group, at most the lanes
  std::string transport = "auto";  // auto, unix, ucx

  int64_t world_size() const;
  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

// What decides which operators of a window are captured first: the expert's popularity (tokens,
// gate probabilities, recent tokens, tokens over capacity), or time saved per byte.
enum class CaptureOrdering { kAuto, kPopularity, kSoft, kDecayed, kCapacity, kRatio };
// What is lost at once; a rank's copies go to peers in other ones.
enum class FailureDomain { kWorker, kNode, kRack };

// Gradients of so many steps are counted in bytes.
inline constexpr int64_t kBaseEveryStepsMax = 1'000'000;

// How lost workers' state is kept in the memory of their peers. No key of it changes bits.
struct ProtectionConfig {
  StrategyKind strategy = StrategyKind::kSparse;
  int64_t copies = 1;                        // of each snapshot, at peers
  int64_t memory_budget = int64_t{4} << 30;  // bytes of a worker for snapshots, copies and logs
  int64_t window = 0;  // sparse: steps of a window; 0: chosen ("auto" in TOML)
  int64_t window_every_steps =
      0;  // sparse: from one window's begin to the next; 0: back to back ("auto")
  int64_t dense_every_steps = 1;   // dense, peer-memory: steps between full snapshots
  int64_t base_every_steps = 8;    // gradients: the same
  double overhead_budget = 0.035;  // checkfreq: share of training time for durable saves
  // partial-experts: experts of a layer that a checkpoint holds, and that are copied to memory with
  // it; 0: all.
  int64_t experts_saved = 1;
  int64_t experts_in_memory = 0;
  ExpertSelection expert_selection = ExpertSelection::kSequential;
  double plt_max = 0.05;   // partial-experts: share of the run's tokens that may be lost
  int64_t part_bytes = 0;  // of the parts that operators are cut into, at most; 0: chosen
  CaptureOrdering ordering = CaptureOrdering::kAuto;
  // A new order is made when this share of the experts ...
  double reorder_share = 0.25;
  // ... have changed their popularity by more than this, relative to what it was.
  double reorder_change = 0.10;
  int64_t copy_bandwidth = int64_t{1}
                           << 30;  // bytes per second of a worker for captures and copies
  double mtbf_seconds = 3600;      // expected between two failures of the job
  FailureDomain failure_domain = FailureDomain::kNode;
  double step_deadline_medians = 20;  // a step of more than so many median steps counts as hung
  double heartbeat_seconds = 0.5;     // between two signs of life of a worker
  double recovery_deadline_seconds = 600;  // for a role to come up again, and to gather its state
  friend bool operator==(const ProtectionConfig&, const ProtectionConfig&) = default;
};

struct CheckpointConfig {
  int64_t every_steps = 50;  // 0: only at the end
  int64_t keep_newest = 2;
  int64_t keep_every_steps = 0;  // also keep steps that are multiples of this; 0: none
  int64_t keep_best = 1;         // also keep the n best by validation loss
  // Each machine's own disk; empty: it is not used. "{node}" stands for the number of the node.
  std::string local_directory;
  int64_t local_every_steps = 10;
  int64_t local_keep_newest = 2;
  std::string store;  // "s3://bucket/prefix"; empty: none
  int64_t store_keep_newest = 2;

  // local_directory on that node.
  std::string local_directory_of(int64_t node) const;
  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

// Where experts live inside their stages.
enum class ExpertReplicas { kUniform, kByLoad };

struct ExpertsConfig {
  ExpertReplicas replicas = ExpertReplicas::kUniform;
  int64_t slots = 0;  // of a lane and layer; 0: chosen ("auto" in TOML)
  int64_t faults = 0;
  int64_t rebalance_every_steps = 200;
  double rebalance_gain = 1.05;
  friend bool operator==(const ExpertsConfig&, const ExpertsConfig&) = default;
};

// Lanes that train and rest. No key of it changes bits by itself: what happens does, and `history`.
struct ElasticConfig {
  bool enabled = false;
  int64_t min_nodes = 1;
  double grow_wait_seconds = 5;
  std::vector<int64_t> widths;  // of a stage, ascending; empty: any
  std::string history;          // "STEP LANES LANES ..., ...": elastic_keys.h
  friend bool operator==(const ElasticConfig&, const ElasticConfig&) = default;
};

// What is done about roles that compute slower than others.
enum class StragglerAction { kTell, kMove };

struct StragglersConfig {
  double slower_than = 1.15;  // times as long as others
  int64_t for_steps = 20;
  double link_slower_than = 3;  // times as long as usual
  double probe_seconds = 1;     // between two probes of a role; 0: none
  StragglerAction action = StragglerAction::kTell;
  friend bool operator==(const StragglersConfig&, const StragglersConfig&) = default;
};

struct EvaluateConfig {
  int64_t every_steps = 50;   // 0: only at the end
  int64_t micro_batches = 8;  // 0: the whole held-out text ("all" in TOML)
  friend bool operator==(const EvaluateConfig&, const EvaluateConfig&) = default;
};

struct RunConfig {
  int64_t restarts_max = 3;      // in a row without progress
  double backoff_seconds = 0.2;  // before the first restart, doubled each time, at most 30
  double deadline_seconds = 60;  // longest silence of a peer before it counts as hung
  int64_t threads = 1;           // compute threads of a worker; changes bits
  int64_t nodes = 1;             // simulated on this machine
  int64_t spares = 0;            // nodes beside these, which take over from lost ones
  int64_t standbys = 0;          // warm processes without a role, on all nodes together
  int64_t racks = 0;             // of nodes and spares, in order; 0: every node is its own
  double node_cpus = 0;          // CPUs of a simulated node; 0: no limit
  bool shares_gpus = false;      // a GPU may have several workers
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

// Who decides, on several machines.
struct ControlConfig {
  // "etcd://HOST:PORT,...", or with TLS "etcds://...": where hosts are elected; empty: the first
  // node hosts.
  std::string store;
  // Of a store with TLS, PEM files: who signed its certificate, and the certificate and key that
  // it may ask for (both or none).
  std::string store_authority;
  std::string store_certificate;
  std::string store_key;
  int64_t lease_seconds = 5;  // a host of which the store hears nothing has the seat so long
  friend bool operator==(const ControlConfig&, const ControlConfig&) = default;
};

struct JobConfig {
  ModelShape model;
  TrainConfig train;
  DataConfig data;
  ParallelConfig parallel;
  ProtectionConfig protection;
  ExpertsConfig experts;
  ElasticConfig elastic;
  StragglersConfig stragglers;
  CheckpointConfig checkpoint;
  EvaluateConfig evaluate;
  RunConfig run;
  ControlConfig control;
  friend bool operator==(const JobConfig&, const JobConfig&) = default;
};

// The longest configuration text that is read.
inline constexpr int64_t kConfigBytesMax = 1 << 20;

// Parses a TOML file, then applies "key=value" settings in order, then validates, then looks at the
// data: the files must exist, fit the model's vocabulary and be long enough for one sequence.
// Reads of the data no more than a token file's header. In settings, text needs no quotes, and
// relative paths are taken from the current folder.
absl::StatusOr<JobConfig> load_config(const std::string& path,
                                      const std::vector<std::string>& settings);
// The same for TOML text, without a look at the data; `origin` names it in errors, relative paths
// in it are taken from `directory`. All paths of the result are absolute.
absl::StatusOr<JobConfig> parse_config(const std::string& text, const std::string& origin,
                                       const std::string& directory,
                                       const std::vector<std::string>& settings);

// The complete configuration as TOML that parses back to an equal one.
std::string to_toml(const JobConfig& config);

// What must not change when a checkpoint is continued: model and data order. Lines "key=value".
std::string model_identity(const JobConfig& config);
// What must be equal on all workers of one run (everything that determines bits, plus topology).
std::string bits_identity(const JobConfig& config);

}  // namespace evermoe
