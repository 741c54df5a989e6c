#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "config/key_builders.h"
#include "config/protection_keys.h"

namespace evermoe {
namespace {

using C = JobConfig;
constexpr auto kRun = KeyScope::kRun;
constexpr auto kBits = KeyScope::kBits;
constexpr auto kModel = KeyScope::kModel;

// Limits that keep every product of sizes far inside 64 bits and every count inside 32.
constexpr int64_t kSizeMax = 1 << 20;
constexpr int64_t kCountMax = 1'000'000'000;
constexpr IntegerRange kWidth{64, kSizeMax, 64};

ConfigKey preset_key() {
  ConfigKey key{"model.preset", absl::StrJoin(preset_names(), ", "),
                "the shape that the other model keys change", kModel, KeyPhase::kPreset};
  key.is_text = true;
  key.read = [](const FoundValue& found, JobConfig& config) {
    const std::string* name = std::get_if<std::string>(&found.value);
    if (name == nullptr) return false;
    const absl::StatusOr<ModelShape> shape = preset(*name);
    if (shape.ok()) config.model = *shape;
    return shape.ok();
  };
  key.write = [](const JobConfig&) { return std::string(); };
  return key;
}

ConfigKey style_key() {
  ConfigKey key{
      "model.style", absl::StrJoin(style_names(), ", "),
      "sets norm, activation, position, scoring, normalise_top_k, the biases, shared_gate "
      "and, unless it is given too, shared_hidden",
      kModel, KeyPhase::kStyle};
  key.is_text = true;
  key.read = [](const FoundValue& found, JobConfig& config) {
    const std::string* name = std::get_if<std::string>(&found.value);
    if (name == nullptr) return false;
    // A preset of this very style may differ from it on purpose.
    if (*name == config.model.style) return true;
    const absl::StatusOr<ModelShape> shape = with_style(config.model, *name);
    if (shape.ok()) config.model = *shape;
    return shape.ok();
  };
  key.write = [](const JobConfig& config) { return quoted(config.model.style); };
  return key;
}

std::vector<ConfigKey> size_keys() {
  using M = ModelShape;
  return {
      preset_key(),
      style_key(),
      integer_key("model.vocabulary", Field{&C::model, &M::vocabulary}, {64, 1 << 24, 64}, kModel,
                  "rows of the embedding, at least the tokenizer's vocabulary"),
      integer_key("model.sequence_length", Field{&C::model, &M::sequence_length}, {1, kSizeMax},
                  kModel, "tokens of one training sequence"),
      integer_key("model.layers", Field{&C::model, &M::layers}, {1, 4096}, kModel,
                  "number of layers"),
      integer_key("model.hidden", Field{&C::model, &M::hidden}, kWidth, kModel,
                  "width of the residual stream"),
      integer_key("model.heads", Field{&C::model, &M::heads}, {1, 4096}, kModel, "attention heads"),
      integer_key("model.kv_heads", Field{&C::model, &M::kv_heads}, {1, 4096}, kModel,
                  "key and value heads, a divisor of heads"),
      integer_key("model.head_dim", Field{&C::model, &M::head_dim}, {2, 4096, 2}, kModel,
                  "width of one head; heads * head_dim is a multiple of 64"),
      integer_key("model.dense_hidden", Field{&C::model, &M::dense_hidden}, kWidth, kModel,
                  "width of the feed-forward network of layers that are not MoE"),
      integer_key("model.expert_hidden", Field{&C::model, &M::expert_hidden}, kWidth, kModel,
                  "width of one expert"),
      integer_key("model.shared_hidden", Field{&C::model, &M::shared_hidden}, {0, kSizeMax, 64},
                  kModel, "total width of the shared experts, 0 for none"),
      integer_key("model.experts", Field{&C::model, &M::experts}, {1, 65536}, kModel,
                  "routed experts of an MoE layer"),
      integer_key("model.top_k", Field{&C::model, &M::top_k}, {1, 1024}, kModel,
                  "experts chosen for each token"),
      integer_key("model.moe_every", Field{&C::model, &M::moe_every}, {1, 4096}, kModel,
                  "n: every n-th layer is an MoE layer (counted from 0: n-1, 2n-1, ...)"),
      integer_key("model.dense_first_layers", Field{&C::model, &M::dense_first_layers}, {0, 4096},
                  kModel, "how many of the first layers are dense, whatever moe_every says"),
  };
}

std::vector<ConfigKey> part_keys() {
  using M = ModelShape;
  return {
      choice_key("model.norm", Field{&C::model, &M::norm},
                 {{"layernorm", NormKind::kLayerNorm}, {"rmsnorm", NormKind::kRmsNorm}}, kModel,
                 "normalisation before attention, feed-forward network and head"),
      choice_key("model.activation", Field{&C::model, &M::activation},
                 {{"gelu", ActivationKind::kGelu}, {"swiglu", ActivationKind::kSwiGlu}}, kModel,
                 "activation function of feed-forward networks and experts"),
      choice_key("model.position", Field{&C::model, &M::position},
                 {{"learned", PositionKind::kLearned}, {"rotary", PositionKind::kRotary}}, kModel,
                 "how positions are encoded"),
      choice_key("model.scoring", Field{&C::model, &M::scoring},
                 {{"softmax-then-top-k", ScoringKind::kSoftmaxThenTopK},
                  {"top-k-then-softmax", ScoringKind::kTopKThenSoftmax}},
                 kModel, "how gate logits become the weights of the chosen experts"),
      bool_key("model.normalise_top_k", Field{&C::model, &M::normalise_top_k}, kModel,
               "whether the weights of the chosen experts are scaled to sum to 1"),
      number_key("model.routed_scale", Field{&C::model, &M::routed_scale}, {0, 1000, true}, kModel,
                 "factor applied to the sum of the routed experts' outputs"),
      bool_key("model.shared_gate", Field{&C::model, &M::shared_gate}, kModel,
               "whether a sigmoid gate scales the shared experts' output"),
      bool_key("model.linear_bias", Field{&C::model, &M::linear_bias}, kModel,
               "whether all linear maps except gate and head have biases"),
      bool_key("model.qkv_bias", Field{&C::model, &M::qkv_bias}, kModel,
               "whether query, key and value projections have biases"),
      number_key("model.rope_theta", Field{&C::model, &M::rope_theta}, {1, 1e9}, kModel,
                 "base of the rotary wavelengths"),
      number_key("model.norm_epsilon", Field{&C::model, &M::norm_epsilon}, {0, 1, true}, kModel,
                 "added to the variance in normalisation layers"),
      number_key("model.balance_loss", Field{&C::model, &M::balance_loss}, {0, 1000}, kBits,
                 "coefficient of the load-balancing loss"),
      number_key("model.z_loss", Field{&C::model, &M::z_loss}, {0, 1000}, kBits,
                 "coefficient of the router z-loss"),
      number_key("model.init_std", Field{&C::model, &M::init_std}, {0, 10, true}, kBits,
                 "standard deviation of the initial weights"),
  };
}

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
      integer_key("train.steps", Field{&C::train, &T::steps}, {1, kCountMax}, kBits,
                  "optimizer updates of the whole job; the learning-rate schedule ends there"),
      integer_key("train.seed", Field{&C::train, &T::seed}, {0}, kModel,
                  "seed of the initial weights and of the data order"),
      choice_key(
          "train.precision", Field{&C::train, &T::precision},
          {{"fp32", Precision::kFp32},
           {"bf16", Precision::kBf16},
           {"fp16", Precision::kFp16},
           {"fp64", Precision::kFp64}},
          kModel,
          "type of compute weights and activations; master weights are fp32 (fp64 with fp64)"),
      integer_key("train.micro_batches", Field{&C::train, &T::micro_batches}, {1, 65536}, kModel,
                  "micro-batches in a step, over all lanes"),
      integer_key("train.micro_batch_size", Field{&C::train, &T::micro_batch_size}, {1, 65536},
                  kModel, "sequences in a micro-batch"),
      number_key("train.learning_rate", Field{&C::train, &T::learning_rate}, {0, 100}, kBits,
                 "peak learning rate"),
      number_key("train.final_learning_rate", Field{&C::train, &T::final_learning_rate}, {0, 100},
                 kBits, "learning rate of the last step"),
      integer_key("train.warmup_steps", Field{&C::train, &T::warmup_steps}, {0, kCountMax}, kBits,
                  "steps over which the learning rate rises from 0"),
      choice_key("train.schedule", Field{&C::train, &T::schedule},
                 {{"constant", LearningRateShape::kConstant},
                  {"cosine", LearningRateShape::kCosine},
                  {"wsd", LearningRateShape::kWsd}},
                 kBits,
                 "how the learning rate falls; wsd: constant, then falling over decay_steps"),
      integer_key("train.decay_steps", Field{&C::train, &T::decay_steps}, {0, kCountMax}, kBits,
                  "wsd: steps over which the learning rate falls at the end"),
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
      choice_key("train.recompute", Field{&C::train, &T::recompute},
                 {{"none", Recompute::kNone},
                  {"experts", Recompute::kExperts},
                  {"layer", Recompute::kLayer}},
                 kRun,
                 "activations computed again in the backward pass instead of being kept: none, "
                 "those inside "
                 "routed experts, or whole layers, whose tokens then travel twice"),
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
      integer_key("evaluate.every_steps", Field{&C::evaluate, &E::every_steps}, {0, kCountMax},
                  kRun, "steps between evaluations; 0: only one at the end"),
      word_or_integer_key("evaluate.micro_batches", Field{&C::evaluate, &E::micro_batches}, "all",
                          {1, kSizeMax}, kRun,
                          "micro-batches of one evaluation, spread over the held-out text; all: "
                          "the whole text once"),
      integer_key("run.restarts_max", Field{&C::run, &R::restarts_max}, {0, kSizeMax}, kRun,
                  "restarts in a row without a new checkpoint before the job gives up"),
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
      integer_key("run.racks", Field{&C::run, &R::racks}, {0, kJobNodesMax}, kRun,
                  "racks that the nodes are divided into, in order; 0: each node is its own rack"),
  };
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> all;
    for (std::vector<ConfigKey> group : {size_keys(), part_keys(), train_keys(), data_keys(),
                                         parallel_keys(), protection_keys(), run_keys()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return keys;
}

}  // namespace evermoe
