#include "train/sandbox/sandbox.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/check.h"
#include "base/error.h"
#include "comm/sandbox/sandbox_transport.h"
#include "config/job_topology.h"
#include "env/clock.h"
#include "parallel/pipeline_schedule.h"
#include "protection/snapshots/chunk.h"
#include "train/sandbox/sandbox_boundary.h"
#include "train/sandbox/sandbox_files.h"
#include "train/step/trainer.h"

namespace evermoe {
namespace {

constexpr View kSandboxView(1);

// Neither saves nor examines anything, and knows no former experts: the rest is the job's.
JobConfig alone(JobConfig config, Rank role) {
  config.train.micro_batches = sandbox_micro_batches(config, role);
  config.protection.strategy = StrategyKind::kNone;
  config.train.non_finite = NonFinitePolicy::kSkip;
  return config;
}

absl::Status refuse_to_save() {
  CHECK(false) << "a sandbox saves";
  return absl::OkStatus();
}

TrainerEnvironment sandbox_environment(const TokenParts& tokens, c10::Device device,
                                       Transport& transport, Files& files) {
  TrainerEnvironment environment;
  environment.device = device;
  environment.transport = &transport;
  environment.files = &files;
  environment.term = [] {
    CHECK(false) << "a sandbox asks for a term";
    return FolderTerm();
  };
  environment.may_write = environment.may_publish = refuse_to_save;
  environment.training = tokens.training;
  environment.validation = tokens.validation;
  environment.view = kSandboxView;
  return environment;
}

// As the service thread of a member does it.
void capture_all(const Trainer& trainer) {
  std::vector<std::byte> chunk(static_cast<size_t>(Chunk::kBytesMax));
  for (int op = 0; op < std::ssize(trainer.operators()); ++op) {
    const int64_t bytes = trainer.operators()[static_cast<size_t>(op)].bytes.full;
    for (int64_t offset = 0; offset < bytes; offset += Chunk::kBytesMax) {
      const int64_t size = std::min(bytes - offset, Chunk::kBytesMax);
      trainer.capture(op, SnapshotKind::kFull, offset,
                      std::span(chunk).first(static_cast<size_t>(size)));
    }
  }
}

absl::StatusOr<absl::Duration> timed_step(Trainer& trainer, Boundary& boundary) {
  const absl::Duration began = real_clock().now();
  const ActiveOperators all(trainer.operators().size(), true);
  ASSIGN_OR_RETURN(const Findings findings, trainer.train(all, boundary, [](int) {}));
  RETURN_IF_ERROR(trainer.apply(findings, all, [](int) { return absl::OkStatus(); }));
  capture_all(trainer);
  return real_clock().now() - began;
}

}  // namespace

absl::StatusOr<SandboxSteps> run_in_sandbox(const JobConfig& config, const TokenParts& tokens,
                                            c10::Device device, Rank role) {
  const JobConfig job = alone(config, role);
  SandboxTransport transport(role, topology_of(job).world_size());
  SandboxFiles files;
  ASSIGN_OR_RETURN(const auto trainer,
                   Trainer::create(job, sandbox_environment(tokens, device, transport, files), {}));
  trainer->join_stage(kSandboxView);
  RETURN_IF_ERROR(trainer->restore_base(Step(0)));
  SandboxBoundary boundary(state_types(job.train).activations());
  SandboxSteps steps;
  ASSIGN_OR_RETURN(steps.first, timed_step(*trainer, boundary));
  ASSIGN_OR_RETURN(steps.second, timed_step(*trainer, boundary));
  return steps;
}

int64_t sandbox_micro_batches(const JobConfig& config, Rank role) {
  const Topology topology = topology_of(config);
  const int stage = topology.role_of(role).stage;
  std::vector<int> widths;
  for (int s = 0; s < topology.stages(); ++s) widths.push_back(topology.lanes(s));
  const auto orders = pipeline_schedule(widths, static_cast<int>(config.train.micro_batches));
  const int64_t rounds = rounds_in_flight_max(orders[static_cast<size_t>(stage)]) + 1;
  return std::min(config.train.micro_batches, rounds * topology.lanes(stage));
}

std::vector<Rank> roles_by_kind(const JobConfig& config, std::vector<Rank> among) {
  const Topology topology = topology_of(config);
  if (among.empty()) {
    for (int stage = 0; stage < topology.stages(); ++stage)
      among.push_back(topology.rank_of({stage, 0}));
  }
  std::map<int, Rank> of_stage;
  for (const Rank rank : among) of_stage.try_emplace(topology.role_of(rank).stage, rank);
  // Whether it is the first and the last stage, its lanes, and its operators' sizes.
  using Kind = std::tuple<bool, bool, int, std::vector<int64_t>>;
  std::map<Kind, Rank> first_of;
  for (const auto& [stage, rank] : of_stage) {
    std::vector<int64_t> sizes;
    for (const OperatorSpec& spec : operators_of_stage(config.model, topology, stage))
      sizes.push_back(spec.flat_size);
    first_of.try_emplace({stage == 0, stage == topology.stages() - 1, topology.lanes(stage), sizes},
                         rank);
  }
  std::vector<Rank> roles;
  for (const auto& [kind, rank] : first_of) roles.push_back(rank);
  std::ranges::sort(roles);
  return roles;
}

}  // namespace evermoe
