#include "cli/worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/member_worker.h"
#include "cli/narrator.h"
#include "cli/report_channel.h"
#include "comm/job_transport.h"
#include "comm/rendezvous.h"
#include "config/job_config.h"
#include "corpus/token_source.h"
#include "tensor/arithmetic_identity.h"
#include "tensor/host_memory.h"
#include "train/step_loop.h"
#include "train/trainer.h"

namespace evermoe {
namespace {

std::atomic<int> drain_signals{0};

void on_drain_signal(int signal_number) {
  if (drain_signals.fetch_add(1) > 0) _exit(128 + signal_number);
}

bool drain_requested() { return drain_signals.load() > 0; }

void install_drain_signals() {
  struct sigaction action {};
  action.sa_handler = on_drain_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

absl::StatusOr<TokenParts> open_tokens(const DataConfig& data, const std::string& out) {
  const TokenSource source{.path = data.path,
                           .tokenizer = data.tokenizer,
                           .validation_path = data.validation_path,
                           .validation_fraction = data.validation_fraction};
  ASSIGN_OR_RETURN(const TokenPaths paths, prepare_tokens(source, out + "/cache"));
  return open_token_parts(paths);
}

absl::Status serve_rendezvous(const WorkerOptions& options, std::unique_ptr<RendezvousServer>& server) {
  const std::vector<std::string> host_port = absl::StrSplit(options.rendezvous, ':');
  int port = 0;
  if (host_port.size() != 2 || !absl::SimpleAtoi(host_port[1], &port)) {
    return InvalidInput("worker: --rendezvous is '" + options.rendezvous + "', not HOST:PORT");
  }
  ASSIGN_OR_RETURN(server, RendezvousServer::start(host_port[0], port, options.world_size));
  return absl::OkStatus();
}

// Finds the other ranks and connects with them.
absl::StatusOr<std::unique_ptr<Transport>> join(const WorkerOptions& options, const JobConfig& config) {
  const absl::Duration patience = absl::Seconds(options.join_seconds);
  JobTransportOptions transport;
  ASSIGN_OR_RETURN(transport.kind, parse_transport_kind(config.parallel.transport));
  ASSIGN_OR_RETURN(const auto listener, listen_job(transport));
  RendezvousRequest request;
  request.server = options.rendezvous;
  request.rank = options.rank;
  request.world_size = options.world_size;
  request.address = listener->address();
  request.fingerprint = bits_identity(config) + arithmetic_identity();
  ASSIGN_OR_RETURN(const auto addresses, join_rendezvous(request, patience));
  return listener->connect(options.rank, addresses, patience);
}

absl::Status train(const WorkerOptions& options, const JobConfig& config, Transport& transport,
                   ReportChannel& reports) {
  ASSIGN_OR_RETURN(const TokenParts tokens, open_tokens(config.data, options.out));
  TrainerEnvironment environment;
  environment.transport = &transport;
  environment.files = &real_files();
  environment.checkpoint_directory = options.out + "/checkpoints";
  environment.divergence_file = options.out + "/divergence.json";
  environment.training = tokens.training;
  environment.validation = tokens.validation;
  ASSIGN_OR_RETURN(const auto trainer, Trainer::create(config, environment));
  ASSIGN_OR_RETURN(const Resumption resumption, trainer->resume());
  for (const std::string& reason : resumption.skipped) log_warning("skipped checkpoint " + reason);
  reports.send({.kind = WorkerReport::Kind::kReady, .step = resumption.step, .text = resumption.source});
  Narrator narrator(reports, real_files(), options.out);
  const StepObserver nobody{[](const StepRecord&) {}, [](Step, double) {}, [](Step) {}};
  ASSIGN_OR_RETURN(const StepLoopResult result,
                   run_steps(*trainer, config, drain_requested, options.rank == Rank(0) ? narrator.observer() : nobody));
  RETURN_IF_ERROR(narrator.close());
  WorkerReport finished{.kind = WorkerReport::Kind::kFinished, .step = result.step};
  finished.drained = result.drained;
  reports.send(finished);
  return absl::OkStatus();
}

absl::Status connect_and_train(const WorkerOptions& options, ReportChannel& reports) {
  ASSIGN_OR_RETURN(const JobConfig config, load_config(options.config_path, options.settings));
  if (options.agent.empty() && config.parallel.world_size() != options.world_size) {
    return InvalidInput(absl::StrCat("parallel.stages and parallel.lanes need ", config.parallel.world_size(),
                                     " workers, but --world-size is ", options.world_size));
  }
  keep_freed_memory();
  set_compute_threads(static_cast<int>(config.run.threads));
  if (!options.agent.empty()) {
    ASSIGN_OR_RETURN(const TokenParts tokens, open_tokens(config.data, options.out));
    return guard([&] { return run_member(options, config, tokens, drain_requested, reports); });
  }
  std::unique_ptr<RendezvousServer> server;
  if (options.serve_rendezvous) RETURN_IF_ERROR(serve_rendezvous(options, server));
  ASSIGN_OR_RETURN(const auto transport, join(options, config));
  const absl::Status status = guard([&] { return train(options, config, *transport, reports); });
  // Only a worker that is done says goodbye: to the peers of one that failed, its end is a failure.
  if (status.ok()) transport->close();
  return status;
}

}  // namespace

absl::Status run_worker(const WorkerOptions& options) {
  install_drain_signals();
  prctl(PR_SET_NAME, absl::StrCat("evermoe.", options.rank.value).c_str());  // for ps and top
  ReportChannel reports(options.report_fd, options.rank);
  const absl::Status status = connect_and_train(options, reports);
  if (status.ok()) return status;
  log_error(std::string(status.message()));
  WorkerReport failed{.kind = WorkerReport::Kind::kFailed, .text = std::string(status.message())};
  failed.accused = accused_rank(status);
  failed.bad_input = absl::IsInvalidArgument(status);
  reports.send(failed);
  return status;
}

}  // namespace evermoe
