#include "cli/worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/member_worker.h"
#include "cli/narrator.h"
#include "comm/job_transport.h"
#include "comm/rendezvous.h"
#include "config/job_config.h"
#include "config/job_data.h"
#include "corpus/job_tokens.h"
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

absl::StatusOr<TokenParts> open_tokens(const DataConfig& data, const WorkerOptions& options) {
  const std::string cache = join_path(options.out, "cache");
  const TokenSource source = token_source(data);
  // For a member, whoever started the job has done it; a launcher only starts workers.
  if (options.agent.empty()) RETURN_IF_ERROR(prepare_job_tokens(source, cache));
  return open_job_tokens(source, cache);
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

absl::Status train(const WorkerOptions& options, const JobConfig& config, Transport& transport) {
  ASSIGN_OR_RETURN(const TokenParts tokens, open_tokens(config.data, options));
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
  Narrator narrator([](const WorkerReport&) {}, real_files(), options.out);
  const StepObserver nobody{[](const StepRecord&) {}, [](Step, double) {}, [](Step) {}};
  RETURN_IF_ERROR(
      run_steps(*trainer, config, drain_requested, options.rank == Rank(0) ? narrator.observer() : nobody).status());
  return narrator.close();
}

absl::Status connect_and_train(const WorkerOptions& options, ControlClient* client) {
  ASSIGN_OR_RETURN(const JobConfig config, load_config(options.config_path, options.settings));
  if (client == nullptr && config.parallel.world_size() != options.world_size) {
    return InvalidInput(absl::StrCat("parallel.stages and parallel.lanes need ", config.parallel.world_size(),
                                     " workers, but --world-size is ", options.world_size));
  }
  keep_freed_memory();
  set_compute_threads(static_cast<int>(config.run.threads));
  if (client != nullptr) {
    ASSIGN_OR_RETURN(const TokenParts tokens, open_tokens(config.data, options));
    return run_member(options, config, tokens, drain_requested, *client);
  }
  std::unique_ptr<RendezvousServer> server;
  if (options.serve_rendezvous) RETURN_IF_ERROR(serve_rendezvous(options, server));
  ASSIGN_OR_RETURN(const auto transport, join(options, config));
  const absl::Status status = guard([&] { return train(options, config, *transport); });
  // Only a worker that is done says goodbye: to the peers of one that failed, its end is a failure.
  if (status.ok()) transport->close();
  return status;
}

}  // namespace

absl::Status run_worker(const WorkerOptions& options) {
  install_drain_signals();
  prctl(PR_SET_NAME, absl::StrCat("evermoe.", options.rank.value).c_str());  // for ps and top
  std::optional<ControlClient> client;
  if (!options.agent.empty()) client.emplace(ControlClientOptions{options.agent, options.rank, options.since});
  const absl::Status status = connect_and_train(options, client ? &*client : nullptr);
  if (status.ok()) return status;
  log_error(std::string(status.message()));
  return client ? close_line(*client, status) : status;
}

}  // namespace evermoe
