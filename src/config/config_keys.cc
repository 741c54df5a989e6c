#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "checkpoint/object_store/s3_store.h"
#include "config/elastic/elastic_keys.h"
#include "config/experts/experts_keys.h"
#include "config/key_builders.h"
#include "config/model_keys.h"
#include "config/protection_keys.h"
#include "config/stragglers/straggler_keys.h"

namespace evermoe {
namespace {

using C = JobConfig;
using enum KeyScope;

// Limits that keep every product of sizes far inside 64 bits and every count inside 32.
constexpr int64_t kSizeMax = 1 << 20;
constexpr int64_t kCountMax = 1'000'000'000;

ConfigKey loss_scale_key() {
  const Field field{&C::train, &TrainConfig::initial_loss_scale};
  ConfigKey key{"train.initial_loss_scale", "power of two from 1 to 2147483648",
                "fp16: loss scale of the first step", kBits};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    double value = 0;
    int exponent = 0;
    if (!read_number(found, value) || value < 1 || value > 2147483648.0) return false;
    if (std::frexp(value, &exponent) != 0.5) return false;
    field.in(config) = value;
    return true;
  };
  key.write = [=](const JobConfig& config) { return number_to_toml(field.in(config)); };
  return key;
}

std::vector<ConfigKey> train_keys() {
  using T = TrainConfig;
  return {
      integer_key(
          "train.steps", Field{&C::train, &T::steps}, {1, kCountMax}, kBits,
          "optimizer updates of the whole job; the learning-rate schedule ends there unless "
          "schedule_steps is set"),
      integer_key("train.seed", Field{&C::train, &T::seed}, {0}, kModel,
                  "seed of the initial weights and of the data order"),
      choice_key("train.precision", Field{&C::train, &T::precision},
                 {{"fp32", Precision::kFp32},
                  {"bf16", Precision::kBf16},
                  {"fp16", Precision::kFp16},
                  {"fp64", Precision::kFp64},
                  {"fp8", Precision::kFp8}},
                 kModel,
                 "type of compute weights and activations; fp8: compute weights and the factors of "
                 "products, activations are bf16"),
      choice_key("train.master", Field{&C::train, &T::master},
                 {{"auto", MasterPrecision::kAuto},
                  {"fp32", MasterPrecision::kFp32},
                  {"bf16", MasterPrecision::kBf16},
                  {"fp16", MasterPrecision::kFp16},
                  {"fp8", MasterPrecision::kFp8}},
                 kBits,
                 "type of master weights; auto: fp32, and fp64 with precision fp64; narrower ones "
                 "(rounded stochastically): that of precision, or any with fp8"),
      choice_key("train.moments", Field{&C::train, &T::moments},
                 {{"auto", MomentPrecision::kAuto},
                  {"fp32", MomentPrecision::kFp32},
                  {"bf16", MomentPrecision::kBf16},
                  {"fp16", MomentPrecision::kFp16},
                  {"fp8+fp16", MomentPrecision::kFp8AndFp16},
                  {"fp8", MomentPrecision::kFp8}},
                 kBits,
                 "AdamW: type of the moments, with + of the first and the second; auto: fp32, and "
                 "fp64 with precision fp64; fp8: a scale for every 64 elements"),
      integer_key("train.micro_batches", Field{&C::train, &T::micro_batches}, {1, 65536}, kModel,
                  "micro-batches in a step, over all lanes"),
      integer_key("train.micro_batch_size", Field{&C::train, &T::micro_batch_size}, {1, 65536},
                  kModel, "sequences in a micro-batch"),
      number_key("train.learning_rate", Field{&C::train, &T::learning_rate}, {0, 100}, kBits,
                 "peak learning rate"),
      number_key("train.final_learning_rate", Field{&C::train, &T::final_learning_rate}, {0, 100},
                 kBits, "learning rate of the last step of the schedule"),
      integer_key("train.warmup_steps", Field{&C::train, &T::warmup_steps}, {0, kCountMax}, kBits,
                  "steps over which the learning rate rises from 0"),
      choice_key("train.schedule", Field{&C::train, &T::schedule},
                 {{"constant", LearningRateShape::kConstant},
                  {"cosine", LearningRateShape::kCosine},
                  {"wsd", LearningRateShape::kWsd}},
                 kBits,
                 "how the learning rate falls; wsd: constant, then falling over decay_steps"),
      integer_key("train.decay_steps", Field{&C::train, &T::decay_steps}, {0, kCountMax}, kBits,
                  "wsd: steps at the end of the schedule over which the learning rate falls"),
      auto_integer_key(
          "train.schedule_steps", Field{&C::train, &T::schedule_steps}, {1, kCountMax}, kBits,
          "length of the learning-rate schedule in steps; afterwards the rate of its last step "
          "stays; auto: train.steps"),
      number_key("train.beta1", Field{&C::train, &T::beta1}, {0, 1, false, true}, kBits,
                 "AdamW: decay rate of the first moment"),
      number_key("train.beta2", Field{&C::train, &T::beta2}, {0, 1, false, true}, kBits,
                 "AdamW: decay rate of the second moment"),
      number_key("train.epsilon", Field{&C::train, &T::epsilon}, {0, 1, true}, kBits,
                 "AdamW: added to the square root of the second moment"),
      number_key("train.weight_decay", Field{&C::train, &T::weight_decay}, {0, 100}, kBits,
                 "AdamW: weight decay of matrices; norms and biases have none"),
      number_key("train.clip_norm", Field{&C::train, &T::clip_norm}, {0, 1e6}, kBits,
                 "gradients are clipped to this global norm; 0 turns clipping off"),
      loss_scale_key(),
      integer_key("train.loss_scale_growth_steps", Field{&C::train, &T::loss_scale_growth_steps},
                  {1, kCountMax}, kBits,
                  "fp16: the loss scale doubles after this many steps without overflow"),
      integer_key("train.skipped_steps_max", Field{&C::train, &T::skipped_steps_max},
                  {1, kCountMax}, kRun,
                  "steps skipped in a row because their loss or gradients are not finite, after "
                  "which the run ends with "
                  "an error; fp16: only those at the lowest loss scale count"),
      choice_key(
          "train.non_finite", Field{&C::train, &T::non_finite},
          {{"skip", NonFinitePolicy::kSkip},
           {"examine", NonFinitePolicy::kExamine},
           {"quarantine", NonFinitePolicy::kQuarantine}},
          kBits,
          "a loss or gradients that are not finite: skip the step; examine: compute it again "
          "on another node first, which tells a node at fault, which gets no role any more, "
          "from samples at fault; quarantine: and never train those samples again"),
      choice_key("train.recompute", Field{&C::train, &T::recompute},
                 {{"none", Recompute::kNone},
                  {"experts", Recompute::kExperts},
                  {"layer", Recompute::kLayer}},
                 kRun,
                 "activations computed again in the backward pass instead of being kept: none, "
                 "those inside "
                 "routed experts, or whole layers, whose tokens then travel twice"),
      choice_key("train.device", Field{&C::train, &T::device}, device_choices(), kBits,
                 "what workers compute on; auto: NVIDIA GPUs where there are some and PyTorch is "
                 "built for them, shared if there are fewer than workers, else CPUs"),
      bytes_key("train.deferred_bytes", Field{&C::train, &T::deferred_bytes}, {0, int64_t{1} << 50},
                kRun,
                "memory of a rank for weight gradients that it defers until it would wait for "
                "others; 0 turns deferring off"),
  };
}

bool any_text(const std::string&) { return true; }
bool names_tokenizer(const std::string& text) {
  return text == "bytes" || text.ends_with(".model");
}

std::vector<ConfigKey> data_keys() {
  using D = DataConfig;
  return {
      path_key("data.path", Field{&C::data, &D::path}, "text file or token file (.tokens)",
               any_text, kRun, "what to train on"),
      path_key("data.tokenizer", Field{&C::data, &D::tokenizer},
               "bytes, or a SentencePiece .model file", names_tokenizer, kRun,
               "how text becomes tokens; ignored for a token file"),
      path_key("data.validation_path", Field{&C::data, &D::validation_path},
               "text file or token file (.tokens), or empty", any_text, kRun,
               "what to evaluate on; empty: the end of data.path"),
      number_key("data.validation_fraction", Field{&C::data, &D::validation_fraction},
                 {0, 0.9, true}, kModel,
                 "share of data.path that is held out if validation_path is empty"),
  };
}

ConfigKey lanes_key() {
  constexpr IntegerRange kLanes{1, 1024};
  ConfigKey key{"parallel.lanes", "integer from 1 to 1024, or an array with one for each stage",
                "ranks of each stage group (data x expert parallel)", kBits};
  key.read = [=](const FoundValue& found, JobConfig& config) {
    std::vector<int64_t> lanes;
    if (const int64_t* one = std::get_if<int64_t>(&found.value)) lanes = {*one};
    if (const auto* all = std::get_if<std::vector<int64_t>>(&found.value)) lanes = *all;
    for (const int64_t width : lanes) {
      if (!kLanes.contains(width)) return false;
    }
    if (lanes.empty()) return false;
    config.parallel.lanes = lanes;
    return true;
  };
  key.write = [](const JobConfig& config) {
    const std::vector<int64_t>& lanes = config.parallel.lanes;
    const bool equal = std::equal(lanes.begin() + 1, lanes.end(), lanes.begin());
    return equal ? std::to_string(lanes[0]) : "[" + absl::StrJoin(lanes, ", ") + "]";
  };
  return key;
}

ConfigKey transport_key() {
  const Field field{&C::parallel, &ParallelConfig::transport};
  return choice_key<ParallelConfig, std::string>(
      "parallel.transport", field, {{"auto", "auto"}, {"unix", "unix"}, {"ucx", "ucx"}}, kRun,
      "how processes exchange bytes; auto: unix on one host, ucx across hosts");
}

std::vector<ConfigKey> parallel_keys() {
  using P = ParallelConfig;
  return {
      integer_key("parallel.stages", Field{&C::parallel, &P::stages}, {1, 1024}, kBits,
                  "pipeline stages, at most model.layers"),
      lanes_key(),
      integer_key("parallel.expert_replicas", Field{&C::parallel, &P::expert_replicas}, {1, 1024},
                  kBits, "instances of every expert in its stage group, at most the lanes"),
      transport_key(),
  };
}

// Not a path: it stays as it is written.
ConfigKey store_key() {
  const auto field = Field{&C::checkpoint, &CheckpointConfig::store};
  ConfigKey key{"checkpoint.store", "a URL, or empty",
                "object store where the host also puts published checkpoints, and from where a job "
                "goes on whose folder has nothing newer: s3://BUCKET/PREFIX; empty: none",
                kRun};
  key.is_text = true;
  key.read = [=](const FoundValue& found, JobConfig& config) {
    const std::string* value = std::get_if<std::string>(&found.value);
    if (value == nullptr || !(value->empty() || parse_s3_url(*value).ok())) return false;
    field.in(config) = *value;
    return true;
  };
  key.write = [=](const JobConfig& config) { return quoted(field.in(config)); };
  return key;
}

std::vector<ConfigKey> run_keys() {
  using K = CheckpointConfig;
  using E = EvaluateConfig;
  using R = RunConfig;
  return {
      integer_key("checkpoint.every_steps", Field{&C::checkpoint, &K::every_steps}, {0, kCountMax},
                  kRun, "steps between durable checkpoints; 0: only one at the end"),
      integer_key("checkpoint.keep_newest", Field{&C::checkpoint, &K::keep_newest}, {1, kSizeMax},
                  kRun, "how many of the newest checkpoints are kept"),
      integer_key("checkpoint.keep_every_steps", Field{&C::checkpoint, &K::keep_every_steps},
                  {0, kCountMax}, kRun,
                  "checkpoints at multiples of this step are kept too; 0: none"),
      integer_key("checkpoint.keep_best", Field{&C::checkpoint, &K::keep_best}, {0, kSizeMax}, kRun,
                  "how many of the checkpoints with the lowest validation loss are kept too"),
      path_key(
          "checkpoint.local_directory", Field{&C::checkpoint, &K::local_directory},
          "a path, or empty", [](const std::string&) { return true; }, kRun,
          "folder on each machine's own disk, where every rank also saves what it owns; {node} "
          "stands for the node's number; empty: none"),
      integer_key("checkpoint.local_every_steps", Field{&C::checkpoint, &K::local_every_steps},
                  {1, kCountMax}, kRun, "steps between saves to checkpoint.local_directory"),
      integer_key("checkpoint.local_keep_newest", Field{&C::checkpoint, &K::local_keep_newest},
                  {1, 8}, kRun, "how many of the newest saves are kept there"),
      store_key(),
      integer_key("checkpoint.store_keep_newest", Field{&C::checkpoint, &K::store_keep_newest},
                  {1, kSizeMax}, kRun, "how many of the newest checkpoints are kept there"),
      integer_key("evaluate.every_steps", Field{&C::evaluate, &E::every_steps}, {0, kCountMax},
                  kRun, "steps between evaluations; 0: only one at the end"),
      word_or_integer_key("evaluate.micro_batches", Field{&C::evaluate, &E::micro_batches}, "all",
                          {1, kSizeMax}, kRun,
                          "micro-batches of one evaluation, spread over the held-out text; all: "
                          "the whole text once"),
      integer_key(
          "run.restarts_max", Field{&C::run, &R::restarts_max}, {0, kSizeMax}, kRun,
          "the job gives up after so many restarts in a row without progress: of the whole job, or "
          "of one worker if the job is protected"),
      number_key("run.backoff_seconds", Field{&C::run, &R::backoff_seconds}, {0, 30}, kRun,
                 "wait before the first restart; doubles with each further one, up to 30"),
      number_key("run.deadline_seconds", Field{&C::run, &R::deadline_seconds}, {0.1, 86400}, kRun,
                 "a job that makes no progress for this long is searched for a hung worker"),
      integer_key("run.threads", Field{&C::run, &R::threads}, {1, 1024}, kBits,
                  "compute threads of a worker"),
      integer_key("run.nodes", Field{&C::run, &R::nodes}, {1, kJobNodesMax}, kRun,
                  "nodes simulated on this machine"),
      integer_key("run.spares", Field{&C::run, &R::spares}, {0, kJobNodesMax}, kRun,
                  "spare nodes, which replace failed ones"),
      integer_key("run.standbys", Field{&C::run, &R::standbys}, {0, kJobNodesMax}, kRun,
                  "warm processes that wait for the role of a lost one, on spare nodes first"),
      integer_key("run.racks", Field{&C::run, &R::racks}, {0, kJobNodesMax}, kRun,
                  "racks that the nodes and spares are divided into, in order; 0: each node is its "
                  "own rack"),
      number_key("run.node_cpus", Field{&C::run, &R::node_cpus}, {0, 1024}, kRun,
                 "how much of this machine's CPUs each simulated node gets, by control groups of "
                 "Linux; 0: no limit"),
      bool_key("run.shares_gpus", Field{&C::run, &R::shares_gpus}, kRun,
               "with train.device cuda, whether several workers may compute on one GPU; each has "
               "its own otherwise"),
  };
}

std::vector<ConfigKey> control_keys() {
  const auto field = Field{&C::control, &ControlConfig::store};
  ConfigKey store{"control.store",
                  "text: empty, etcd://HOST:PORT,HOST:PORT,... or, with TLS, etcds://...",
                  "where nodes of several machines agree on who hosts the job; empty: the first "
                  "node hosts it, or `evermoe controller`",
                  kRun};
  store.is_text = true;
  store.read = [=](const FoundValue& found, JobConfig& config) {
    const std::string* value = std::get_if<std::string>(&found.value);
    const bool is_store = value != nullptr && (value->empty() || value->starts_with("etcd://") ||
                                               value->starts_with("etcds://"));
    if (!is_store) return false;
    field.in(config) = *value;
    return true;
  };
  store.write = [=](const JobConfig& config) { return quoted(field.in(config)); };
  const auto file = [](const char* name, std::string ControlConfig::*member, const char* meaning) {
    return path_key(
        name, Field{&C::control, member}, "text: a PEM file, or empty",
        [](const std::string&) { return true; }, kRun, meaning);
  };
  return {
      store,
      file("control.store_authority", &ControlConfig::store_authority,
           "etcds://: certificates of the authorities that sign the store's certificate"),
      file("control.store_certificate", &ControlConfig::store_certificate,
           "etcds://: the certificate that nodes show if the store asks for one"),
      file("control.store_key", &ControlConfig::store_key,
           "etcds://: the private key of store_certificate"),
      integer_key("control.lease_seconds", Field{&C::control, &ControlConfig::lease_seconds},
                  {3, 120}, kRun,
                  "with control.store: how long the store waits for a silent host before another "
                  "node hosts; that host ends its controller a second earlier")};
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> all;
    for (std::vector<ConfigKey> group :
         {model_keys(), train_keys(), data_keys(), parallel_keys(), experts_keys(),
          protection_keys(), elastic_keys(), straggler_keys(), run_keys(), control_keys()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return keys;
}

}  // namespace evermoe
