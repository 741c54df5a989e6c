#include "control/launch/node_run.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "config/job_topology.h"
#include "control/controller/control_options.h"
#include "control/launch/control_processes.h"
#include "control/launch/signal_inbox.h"

namespace evermoe {
namespace {

// How long node 0 waits for others that are to hear of an end.
constexpr absl::Duration kTellMax = absl::Seconds(20);
constexpr size_t kGreetingsMax = 1 << 16;

// Answers every agent with the end.
class Farewell final : public StreamEvents {
 public:
  explicit Farewell(const EndJob& end) : end_(end) {}

  void serve(ControlListener& listener, int others) {
    std::set<Node> told;
    const absl::Duration deadline = real_clock().now() + kTellMax;
    while (std::ssize(told) < others && real_clock().now() < deadline) {
      pollfd waiting{arrived_.fd(), POLLIN, 0};
      ::poll(&waiting, 1, 100);
      for (const auto& [stream, envelope] : arrived_.take()) {
        const auto* const hello = std::get_if<AgentHello>(&envelope.message);
        if (hello == nullptr) continue;
        listener.send(stream, {0, end_});
        told.insert(hello->node);
      }
    }
  }

 private:
  void on_envelope(StreamNumber stream, Envelope envelope) override {
    arrived_.put({stream, std::move(envelope)});
  }
  void on_broken(StreamNumber, const std::string&) override {}

  const EndJob end_;
  Mailbox<std::pair<StreamNumber, Envelope>> arrived_{kGreetingsMax};
};

AgentOptions options_of_agent(const NodeOptions& options, SignalInbox& signals) {
  AgentProcessOptions process;
  process.out = options.out;
  process.node = Node(options.node);
  process.worker = options.worker;
  process.worker_arguments = worker_arguments(options.out, options.build);
  AgentOptions agent;
  agent.controller = options.controller;
  agent.address = absl::StrCat("unix-abstract:evermoe-node-", ::getpid());
  agent.command = command_of(process, topology_of(options.config));
  agent.signals = &signals;
  agent.core = agent_options(options.config);
  agent.core.node = process.node;
  agent.core.pid = ::getpid();
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
  config.run.racks = std::min(config.run.racks, config.run.nodes);
  if (nodes > 1 && config.parallel.transport == "auto") config.parallel.transport = "ucx";
  return absl::OkStatus();
}

absl::StatusOr<EndJob> run_node(Clock& clock, const NodeOptions& options) {
  configure_log(absl::StrCat("node ", options.node), LogLevel::kInfo);
  // Workers inherit it.
  for (const auto& [name, value] : process_environment(options.config))
    ::setenv(name.c_str(), value.c_str(), 1);
  ASSIGN_OR_RETURN(const auto signals, SignalInbox::open());
  RETURN_IF_ERROR(real_files().create_directories(join_path(options.out, "logs")));
  ASSIGN_OR_RETURN(const auto agent, Agent::start(options_of_agent(options, *signals), clock));
  RETURN_IF_ERROR(agent->run());
  return agent->job_end().value_or(EndJob{.ok = true});
}

void tell_nodes(const std::string& address, int others, const EndJob& end) {
  Farewell farewell(end);
  const auto listener = ControlListener::start(address, farewell);
  if (!listener.ok()) return log_warning(std::string(listener.status().message()));
  farewell.serve(**listener, others);
}

}  // namespace evermoe
