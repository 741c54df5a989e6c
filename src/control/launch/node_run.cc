#include "control/launch/node_run.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "config/job_topology.h"
#include "config/validate_config.h"
#include "control/controller/control_options.h"
#include "control/folder/job_folder.h"
#include "control/health/health_measure.h"
#include "control/hosting/folder_watch.h"
#include "control/hosting/node_hosting.h"
#include "control/launch/control_processes.h"
#include "control/launch/signal_inbox.h"
#include "control/wire/private_folder.h"

namespace evermoe {
namespace {

// How long a host waits for nodes that are to hear of an end.
constexpr absl::Duration kTellMax = absl::Seconds(20);
constexpr size_t kGreetingsMax = 1 << 16;

// Answers agents with the end: all of them, or only those without workers.
class Farewell final : public StreamEvents {
 public:
  Farewell(const EndJob& end, bool tells_all) : end_(end), tells_all_(tells_all) {}

  void serve(ControlListener& listener, int nodes) {
    std::set<Node> told;
    const absl::Duration deadline = real_clock().now() + kTellMax;
    while (std::ssize(told) < nodes && real_clock().now() < deadline) {
      pollfd waiting{arrived_.fd(), POLLIN, 0};
      ::poll(&waiting, 1, 100);
      for (const auto& [stream, envelope] : arrived_.take()) {
        const auto* const hello = std::get_if<AgentHello>(&envelope.message);
        if (hello == nullptr) continue;
        if (tells_all_ || hello->workers == 0) listener.send(stream, {0, end_});
        told.insert(hello->node);
      }
    }
  }

 private:
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override {
    arrived_.put({stream, std::move(envelope)});
  }
  void on_broken(StreamNumber, const std::string&) noexcept override {}

  const EndJob end_;
  const bool tells_all_;
  Mailbox<std::pair<StreamNumber, Envelope>> arrived_{kGreetingsMax};
};

AgentOptions options_of_agent(const NodeOptions& options, const PrivateFolder& folder,
                              SignalInbox& signals) {
  AgentProcessOptions process;
  process.out = options.out;
  process.node = Node(options.node);
  process.worker = options.worker;
  process.secret = secret_path(options.keys);
  process.worker_arguments = worker_arguments(options.out, options.build);
  if (options.rehearses_faults) {
    process.worker_arguments.insert(process.worker_arguments.end(),
                                    {"--faults", job_faults(options.out)});
  }
  AgentOptions agent;
  agent.controller = options.store.empty() ? options.controller : "";
  agent.address = folder.address("agent");
  agent.command = command_of(process, topology_of(options.config));
  agent.standby_command = standby_command_of(process);
  agent.signals = &signals;
  agent.core = agent_options(options.config);
  agent.core.node = process.node;
  agent.core.pid = ::getpid();
  agent.core.arithmetic = options.arithmetic;
  agent.health = options.health;
  agent.measure = [places = HealthPlaces{folder.path(), worker_logs(options.out, process.node)}](
                      const std::function<void(const std::string&)>& on_part) {
    return measure_health(real_readers(), places, on_part);
  };
  return agent;
}

}  // namespace

absl::Status deal_nodes(int nodes, int spares, JobConfig& config) {
  const int64_t begin = std::min<int64_t>(nodes - spares, config.parallel.world_size());
  if (begin < 1) {
    return InvalidInput(absl::StrCat("--spares: found ", spares,
                                     ", allowed: fewer than the nodes there are (", nodes, ")"));
  }
  config.run.nodes = begin;
  config.run.spares = nodes - begin;
  return check_racks(config.run);
}

absl::StatusOr<NodeEnd> run_node(Clock& clock, const NodeOptions& options) {
  configure_log(absl::StrCat("node ", options.node), LogLevel::kInfo);
  // Workers inherit it.
  for (const auto& [name, value] : process_environment(options.config))
    ::setenv(name.c_str(), value.c_str(), 1);
  ASSIGN_OR_RETURN(const auto signals, SignalInbox::open());
  RETURN_IF_ERROR(real_files().create_directories(worker_logs(options.out, Node(options.node))));
  ASSIGN_OR_RETURN(const auto folder, PrivateFolder::make());
  AgentOptions own = options_of_agent(options, *folder, *signals);
  ASSIGN_OR_RETURN(own.keys, keys_for(options.controller, options.keys));
  std::optional<NodeHosting> hosting;
  own.job_goes_with_it = [&hosting] { return hosting && hosting->is_only_host(); };
  ASSIGN_OR_RETURN(const auto agent, Agent::start(std::move(own), clock));
  std::optional<FolderWatch> watch;
  if (options.host) hosting.emplace(options, *agent);
  if (options.store.empty()) watch.emplace(options, *agent);
  const absl::Status ended = agent->run();
  NodeEnd end;
  std::optional<EndJob> job = agent->job_end();
  if (const auto noted = watch ? watch->end() : std::nullopt; noted && !job) job = noted;
  if (hosting) end.hosted = hosting->end(agent->job_end(), std::string(ended.message()));
  end.quit_signal = agent->quit_signal();
  if (end.quit_signal != 0) return end;
  if (!ended.ok() && !end.hosted && !job) return ended;
  end.job = job.value_or(EndJob{.ok = true});
  return end;
}

void tell_what_nobody_heard(const std::string& address, const std::string& keys, int nodes,
                            const absl::StatusOr<RunSummary>& hosted) {
  const absl::Status& status = hosted.status();
  if (status.ok() && hosted->status != RunStatus::kNothingToDo) return;
  const EndJob end = status.ok() ? EndJob{true, false, hosted->reason}
                                 : EndJob{.bad_input = absl::IsInvalidArgument(status),
                                          .reason = std::string(status.message()),
                                          .is_hopeless = exit_code(status) == kExitHopeless};
  // A job that could not begin here goes on where it lives, but not with bits in doubt.
  Farewell farewell(end, status.ok() || end.is_hopeless);
  const auto loaded = keys_for(address, keys);
  if (!loaded.ok()) return log_warning(std::string(loaded.status().message()));
  const auto listener = ControlListener::start(address, farewell, *loaded);
  if (!listener.ok()) return log_warning(std::string(listener.status().message()));
  farewell.serve(**listener, nodes);
}

}  // namespace evermoe
