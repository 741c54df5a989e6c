#include "train/step/training_cluster_testing.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "comm/in_process/in_process_transport.h"
#include "config/job_topology.h"
#include "tensor/compute_device.h"
#include "tensor/fake_device_testing.h"
#include "tensor/host_bytes.h"
#include "train/step/training_member_testing.h"

namespace evermoe {
namespace {

constexpr int64_t kTestTokens = 20000;

// Text-like bytes: a small grammar's worth of structure, so that losses move.
std::vector<int32_t> test_tokens() {
  std::vector<int32_t> tokens;
  uint64_t state = 12345;
  for (int64_t i = 0; i < kTestTokens; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto draw = static_cast<int32_t>(state >> 60);
    tokens.push_back(i % 7 == 0 ? 32 : 97 + (draw * (static_cast<int32_t>(i) % 5)) % 26);
  }
  return tokens;
}

at::Device test_device() {
  static const at::Device device = [] {
    const char* const wanted = std::getenv("EVERMOE_TEST_DEVICE");
    const std::string name = wanted != nullptr ? wanted : "cpu";
    const at::Device one = name == "fake"   ? fake_device()
                           : name == "cuda" ? at::Device(at::kCUDA, 0)
                                            : at::Device(at::kCPU);
    use_device(one);
    return one;
  }();
  return device;
}

void collect(const Trainer& trainer, ClusterResult& result) {
  for (OperatorState* state : trainer.operator_states()) {
    const OperatorSpec& spec = state->spec();
    const FlatRange shard = state->shard();
    const auto into = [&](std::map<std::string, at::Tensor>& all, const at::Tensor& part) {
      if (!all.contains(spec.name))
        all[spec.name] = at::zeros({storage_size(part.scalar_type(), spec.flat_size)},
                                   part.options().device(at::kCPU));
      stored_range(all[spec.name], shard).copy_(part);
    };
    into(result.weights, state->master());
    into(result.gradients, state->shard_gradient());
    // Every owner's compute weights must be the whole and the same; the shard's owner contributes
    // masters and moments.
    into(result.exp_avgs, state->exp_avg());
    into(result.exp_avg_sqs, state->exp_avg_sq());
    const at::Tensor compute = state->compute().cpu();
    if (!result.compute.contains(spec.name)) result.compute[spec.name] = compute.clone();
    if (!at::equal(result.compute[spec.name], compute)) {
      result.status.Update(Internal("compute weights of " + spec.name + " differ between owners"));
    }
  }
}

void add_rank(Rank rank, const Trainer* trainer, const absl::Status& status,
              ClusterResult& result) {
  if (status.ok()) return collect(*trainer, result);
  result.status.Update(annotate(status, absl::StrCat("rank ", rank.value)));
}

std::string digest(const ClusterResult& result) {
  FingerprintStream stream;
  for (const auto* part :
       {&result.weights, &result.exp_avgs, &result.exp_avg_sqs, &result.compute}) {
    for (const auto& [name, tensor] : *part) {
      stream.update(name);
      stream.update(HostReadable(tensor).bytes());
    }
  }
  return to_hex(stream.finish());
}

}  // namespace

std::vector<std::string> with_types(const std::string& types, std::vector<std::string> settings) {
  const std::vector<std::string> parts = absl::StrSplit(types, '/');
  const char* const keys[] = {"train.precision=", "train.master=", "train.moments="};
  for (size_t i = 0; i < parts.size(); ++i) settings.push_back(keys[i] + parts[i]);
  return settings;
}

std::string types_name(const std::string& types) {
  return absl::StrReplaceAll(types, {{"/", "_"}, {"+", "and"}});
}

const std::vector<std::string>& narrow_types() {
  static const auto& types = *new std::vector<std::string>{
      "fp16/fp16/fp16",   "fp8/fp32/fp32",  "fp8/fp16/fp32", "fp8/fp16/fp8+fp16",
      "fp8/fp8/fp8+fp16", "bf16/bf16/bf16", "fp32/fp32/fp8"};
  return types;
}

const std::vector<std::string>& all_types() {
  static const auto& types = *new std::vector<std::string>([] {
    std::vector<std::string> all = {"fp32", "bf16", "fp16", "fp64"};
    all.insert(all.end(), narrow_types().begin(), narrow_types().end());
    return all;
  }());
  return types;
}

TrainingCluster::TrainingCluster(const std::string& name)
    : directory_(absl::StrCat(std::filesystem::temp_directory_path().string(), "/evermoe-", name,
                              "-", getpid())),
      device_(test_device()) {
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directories(directory_);
  const std::string path = directory_ + "/test.tokens";
  CHECK_OK(write_token_file(path, 256, test_tokens()));
  auto parts = open_token_parts({.training = path, .validation = "", .validation_fraction = 0.1});
  CHECK_OK(parts.status());
  tokens_ = *std::move(parts);
}

TrainingCluster::~TrainingCluster() { std::filesystem::remove_all(directory_); }

TrainerEnvironment TrainingCluster::environment(Transport& transport) const {
  return {.device = device_,
          .transport = &transport,
          .files = files_,
          .checkpoint_directory = directory_ + "/checkpoints",
          .term = [term = term_] { return term; },
          .save_failed = save_failed_,
          .training = tokens_.training,
          .validation = tokens_.validation};
}

absl::StatusOr<std::unique_ptr<Trainer>> TrainingCluster::make_trainer(const JobConfig& config,
                                                                       Transport& transport) const {
  TrainerEnvironment own = environment(transport);
  own.local_directory = config.checkpoint.local_directory_of(transport.rank().value);
  return Trainer::create(config, own, {.buckets = buckets_, .waits_for_files = waits_for_files_});
}

ClusterResult TrainingCluster::run(const JobConfig& config, const Body& body) const {
  return run_stateless(config, [&](TrainingRank& rank) -> absl::Status {
    RETURN_IF_ERROR(rank.resume());
    return body(rank);
  });
}

ClusterResult TrainingCluster::run_stateless(const JobConfig& config, const Body& body) const {
  ClusterResult result;
  std::mutex mutex;
  InProcessCluster cluster(static_cast<int>(config.parallel.world_size()), {});
  cluster.run([&](Rank rank, Transport& transport) {
    at::set_num_threads(1);
    std::unique_ptr<Trainer> trainer;
    const auto play = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(trainer, make_trainer(config, transport));
      TrainingRank self(*trainer, transport);
      return body(self);
    };
    const absl::Status status = play();
    const std::lock_guard lock(mutex);
    add_rank(rank, trainer.get(), status, result);
    transport.close();
  });
  result.digest = digest(result);
  result.transcript = cluster.transcript();
  result.duration = cluster.now();
  return result;
}

ClusterResult TrainingCluster::run_job(const JobConfig& config,
                                       const TrainingJobOptions& options) const {
  ClusterResult result;
  TrainingMembers members(topology_of(config), options.seed,
                          [&](Transport& transport) { return make_trainer(config, transport); });
  for (const TrainingJobOptions::Kill& kill : options.kills) members.kill_at(kill.rank, kill.time);
  members.run([&](Rank rank, const Trainer* trainer, const absl::Status& status) {
    add_rank(rank, trainer, status, result);
  });
  result.digest = digest(result);
  result.transcript = members.network().transcript();
  result.duration = members.network().now();
  result.resumed_from = members.resumed_from();
  return result;
}

JobConfig tiny_config(const std::string& style, const std::vector<std::string>& settings) {
  auto config =
      parse_config(absl::StrCat("[model]\npreset = \"", style, "-tiny\"\n"), "test", ".", settings);
  CHECK_OK(config.status());
  return *config;
}

}  // namespace evermoe
