#include "simulation/torch_job.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

// Masters, moments and compute weights of a rank, and its position.
std::string digest_of(StageTrainer& trainer) {
  auto& torch = static_cast<Trainer&>(trainer);
  FingerprintStream stream;
  for (OperatorState* state : torch.operator_states()) {
    stream.update(state->spec().name);
    for (const at::Tensor& part :
         {state->master(), state->exp_avg(), state->exp_avg_sq(), state->compute()}) {
      stream.update(HostReadable(part).bytes());
    }
  }
  stream.update(torch.position());
  return to_hex(stream.finish());
}

int64_t active_elements(const OperatorState& state) {
  int64_t elements = 0;
  for (const FlatRange range : state.active()) elements += range.size();
  return elements;
}

bool is_half_active(const OperatorState* state) {
  return !state->is_frozen() && active_elements(*state) < state->spec().flat_size;
}

}  // namespace

JobConfig torch_job_config(const std::string& style, int64_t steps,
                           const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"train.micro_batches=4",
                                       "train.micro_batch_size=1",
                                       "model.sequence_length=16",
                                       "model.layers=2",
                                       "model.experts=4",
                                       "model.top_k=2",
                                       absl::StrCat("train.steps=", steps),
                                       "train.warmup_steps=2",
                                       "train.learning_rate=3e-3",
                                       "checkpoint.every_steps=4",
                                       "evaluate.every_steps=3",
                                       "evaluate.micro_batches=2",
                                       "parallel.stages=2",
                                       "parallel.lanes=2"};
  settings.insert(settings.end(), more.begin(), more.end());
  return tiny_config(style, settings);
}

SimulatedFault kill(Rank rank, const std::string& point, int64_t passing) {
  return {.kind = SimulatedFault::Kind::kKillWorker,
          .rank = rank,
          .point = point,
          .at_rank = rank,
          .passing = passing};
}

uint64_t draw(uint64_t seed, const std::string& what, uint64_t bound) {
  const std::string key = absl::StrCat(seed, "/", what);
  return fingerprint(std::as_bytes(std::span(key.data(), key.size()))).low % bound;
}

// A trainer and what was known of its step when it was last asked whether to stop.
struct TorchJob::Watched {
  Trainer* trainer = nullptr;
  Rank rank;
  bool is_again = false;
  bool is_sparse = false;
};

std::string TorchOutcome::explain() const {
  return absl::StrCat(job.reason, "\n", absl::StrJoin(job.story, "\n"), "\n", job.waiting);
}

std::string stored_digest_of(const std::string& directory) {
  const auto reader = CheckpointReader::open(real_files(), directory + "/checkpoints/latest");
  if (!reader.ok()) return reader.status().ToString();
  const auto problems = (*reader)->verify();
  if (!problems.empty()) return problems.front();
  const auto digest = (*reader)->digest();
  return digest.ok() ? to_hex(*digest) : digest.status().ToString();
}

TorchJob::TorchJob(const JobConfig& config) : config_(config), cluster_("simulation") {
  at::set_num_threads(1);
  shape_.lanes.assign(config.parallel.lanes.begin(), config.parallel.lanes.end());
  shape_.nodes = static_cast<int>(config.parallel.world_size());
  shape_.spares = 2;
  shape_.chunk_bytes_max = 50021;  // cuts elements
  shape_.copy_bytes_per_second = 2e8;
  shape_.log_bytes_max = shape_.snapshot_bytes_max = int64_t{1} << 30;
  shape_.network.time_max = absl::Minutes(2);
  shape_.make_trainer = [this](const Topology&, Transport& transport) {
    return make_trainer(transport);
  };
  shape_.digest_of = digest_of;
}

std::unique_ptr<StageTrainer> TorchJob::make_trainer(Transport& transport) {
  const TrainerEnvironment environment = cluster_.environment(transport);
  const auto watched = std::make_shared<Watched>();
  watched->rank = transport.rank();
  TrainerOptions options;
  options.waits_for_files = waits_for_files_;
  options.drain_requested = [this, watched] {
    watch(*watched);
    return drain_after_ >= Step(0) && watched->trainer->step() >= drain_after_;
  };
  auto trainer = Trainer::create(config_, environment, options);
  CHECK_OK(trainer.status());
  watched->trainer = trainer->get();
  return *std::move(trainer);
}

// Called by every train(), when the step has been computed; the former step has its record.
void TorchJob::watch(Watched& watched) {
  const Trainer& trainer = *watched.trainer;
  const StepRecord& former = trainer.last_record();
  if (watched.is_again && watched.is_sparse && former.step == trainer.step()) {
    if (!former.applied) ++outcome_.sparse_skipped_again;
    if (former.applied && former.gradient_divisor > former.loss_scale)
      ++outcome_.sparse_clipped_again;
  }
  const auto& states = trainer.operator_states();
  watched.is_again = ++trained_[{watched.rank, trainer.step()}] > 1;
  watched.is_sparse = std::ranges::any_of(
      states, [](const OperatorState* s) { return active_elements(*s) < s->spec().flat_size; });
  if (watched.is_again) ++outcome_.steps_again;
  if (watched.is_again && watched.is_sparse) ++outcome_.sparse_again;
  if (watched.is_again && std::ranges::any_of(states, is_half_active)) ++outcome_.mixed_again;
}

TorchOutcome TorchJob::run(const std::vector<SimulatedFault>& faults, uint64_t seed) {
  outcome_ = {};
  trained_.clear();
  shape_.network.seed = seed;
  outcome_.job = SimulatedJob(shape_, faults).run();
  if (outcome_.job.ok) outcome_.stored_digest = stored_digest();
  return outcome_;
}

TorchOutcome TorchJob::run_anew(const std::vector<SimulatedFault>& faults, uint64_t seed) {
  clear_store();
  return run(faults, seed);
}

std::string TorchJob::stored_digest() const { return stored_digest_of(cluster_.directory()); }

std::string TorchJob::unprotected_digest() {
  clear_store();
  CHECK_OK(cluster_.run_job(config_).status);
  std::string digest = stored_digest();
  clear_store();
  return digest;
}

void TorchJob::clear_store() { std::filesystem::remove_all(cluster_.directory() + "/checkpoints"); }

}  // namespace evermoe
