#include "cluster/control_processes.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/log.h"
#include "env/files.h"

namespace evermoe {
namespace {

// ---- values

std::string to_value(const std::string& value) { return value; }
std::string to_value(int value) { return absl::StrCat(value); }
std::string to_value(int64_t value) { return absl::StrCat(value); }
std::string to_value(double value) { return absl::StrFormat("%.17g", value); }
std::string to_value(bool value) { return value ? "1" : "0"; }
std::string to_value(Step value) { return absl::StrCat(value.value); }
std::string to_value(Node value) { return absl::StrCat(value.value); }
std::string to_value(absl::Duration value) { return absl::StrFormat("%.9f", absl::ToDoubleSeconds(value)); }
// "worker": any other one will do.
std::string to_value(std::optional<DomainLevel> value) { return value ? std::string(to_string(*value)) : "worker"; }
std::string to_value(const std::vector<int>& value) { return absl::StrJoin(value, ","); }

bool from_value(const std::string& text, std::string& value) {
  value = text;
  return true;
}
bool from_value(const std::string& text, int& value) { return absl::SimpleAtoi(text, &value); }
bool from_value(const std::string& text, int64_t& value) { return absl::SimpleAtoi(text, &value) && value >= 0; }
bool from_value(const std::string& text, double& value) { return absl::SimpleAtod(text, &value) && value > 0; }
bool from_value(const std::string& text, bool& value) {
  value = text == "1";
  return text == "0" || text == "1";
}
bool from_value(const std::string& text, Step& value) { return absl::SimpleAtoi(text, &value.value) && value.value >= 0; }
bool from_value(const std::string& text, Node& value) { return absl::SimpleAtoi(text, &value.value) && value.value >= 0; }
bool from_value(const std::string& text, absl::Duration& value) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds >= 0)) return false;
  value = absl::Seconds(seconds);
  return true;
}
bool from_value(const std::string& text, std::optional<DomainLevel>& value) {
  for (const DomainLevel level : {DomainLevel::kNode, DomainLevel::kRack, DomainLevel::kSwitch}) {
    value = level;
    if (text == to_string(level)) return true;
  }
  value.reset();
  return text == "worker";
}
bool from_value(const std::string& text, std::vector<int>& value) {
  value.clear();
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    if (!absl::SimpleAtoi(part, &value.emplace_back()) || value.back() < 1) return false;
  }
  return true;
}

// ---- which flag is which option; `visit` gets each name and its place

template <typename Options, typename Visit>
void visit_controller_flags(Options& options, Visit visit) {
  visit("--address", options.address);
  visit("--life", options.relay.life);
  visit("--lanes", options.lanes);
  visit("--nodes", options.core.nodes);
  visit("--spares", options.core.spares);
  visit("--copies", options.core.copies);
  visit("--copy-level", options.core.copy_level);
  visit("--racks", options.core.racks);
  visit("--protected", options.core.is_protected);
  visit("--restart-all", options.core.restart_all_allowed);
  visit("--adoption", options.core.adoption);
  visit("--grace", options.core.grace);
  visit("--start-max", options.core.start_max);
  visit("--report-max", options.core.report_max);
  visit("--silence-max", options.core.silence_max);
  visit("--step-max", options.core.step_max);
  visit("--medians-max", options.core.medians_max);
  visit("--load-max", options.core.load_max);
  visit("--probe-min", options.core.probe_min);
  visit("--losses-max", options.core.losses_max);
  visit("--restarts-max", options.core.restarts_max);
  visit("--backoff", options.core.backoff);
  visit("--backoff-max", options.core.backoff_max);
  visit("--patience", options.core.patience);
  visit("--steps", options.core.steps);
  visit("--evaluate-every", options.core.evaluate_every_steps);
  visit("--checkpoint-every", options.core.checkpoint_every_steps);
  visit("--beat", options.relay.beat);
  visit("--agent-silence-max", options.relay.silence_max);
}

template <typename Options, typename Visit>
void visit_agent_flags(Options& options, Visit visit) {
  visit("--node", options.agent.core.node);
  visit("--controller", options.agent.controller);
  visit("--address", options.agent.address);
  visit("--lanes", options.lanes);
  visit("--logs", options.logs);
  visit("--kept-fd", options.agent.kept_fd);
  visit("--beat", options.agent.core.beat);
  visit("--silence-max", options.agent.core.silence_max);
  visit("--registering-max", options.agent.core.registering_max);
  visit("--away-max", options.agent.core.away_max);
  visit("--worker", options.worker);
}

// Values by name.
absl::StatusOr<std::map<std::string, std::string>> pairs_of(const std::vector<std::string>& flags) {
  std::map<std::string, std::string> pairs;
  for (size_t i = 0; i < flags.size(); i += 2) {
    if (i + 1 == flags.size()) return InvalidInput(absl::StrCat(flags[i], ": found no value"));
    pairs[flags[i]] = flags[i + 1];
  }
  return pairs;
}

// Takes values out of `pairs`; what stays has no place.
class Parser {
 public:
  explicit Parser(std::map<std::string, std::string> pairs) : pairs_(std::move(pairs)) {}
  template <typename T>
  void operator()(const char* name, T& value) {
    const auto node = pairs_.extract(name);
    if (node.empty() || from_value(node.mapped(), value) || !status_.ok()) return;
    status_ = InvalidInput(absl::StrCat(name, ": found '", node.mapped(), "', which is no value of it"));
  }
  absl::Status result() const {
    if (!status_.ok() || pairs_.empty()) return status_;
    return InvalidInput(absl::StrCat(pairs_.begin()->first, ": there is no such flag"));
  }

 private:
  std::map<std::string, std::string> pairs_;
  absl::Status status_;
};

}  // namespace

std::function<WorkerCommand(Rank, View, const std::string&)> command_of(const AgentProcessOptions& options) {
  return [options](Rank rank, View since, const std::string& agent) {
    const Role role = Topology(options.lanes, std::ssize(options.lanes)).role_of(rank);
    WorkerCommand command{options.worker, options.worker_arguments, {}};
    for (const std::string& argument : {std::string("--rank"), absl::StrCat(rank.value), std::string("--since"),
                                        absl::StrCat(since.value), std::string("--agent"), agent,
                                        std::string("--node"), absl::StrCat(options.agent.core.node.value)}) {
      command.arguments.push_back(argument);
    }
    command.log_path = join_path(options.logs, absl::StrCat("worker-", role.stage, ".", role.lane, ".log"));
    return command;
  };
}

std::vector<std::string> to_flags(const ControllerServerOptions& options) {
  std::vector<std::string> flags;
  visit_controller_flags(options, [&](const char* name, const auto& value) {
    flags.insert(flags.end(), {name, to_value(value)});
  });
  return flags;
}

std::vector<std::string> to_flags(const AgentProcessOptions& options) {
  std::vector<std::string> flags;
  visit_agent_flags(options, [&](const char* name, const auto& value) {
    flags.insert(flags.end(), {name, to_value(value)});
  });
  flags.push_back("--");
  flags.insert(flags.end(), options.worker_arguments.begin(), options.worker_arguments.end());
  return flags;
}

absl::StatusOr<ControllerServerOptions> parse_controller_flags(const std::vector<std::string>& flags) {
  ASSIGN_OR_RETURN(auto pairs, pairs_of(flags));
  ControllerServerOptions options;
  Parser parser(std::move(pairs));
  visit_controller_flags(options, [&](const char* name, auto& value) { parser(name, value); });
  RETURN_IF_ERROR(parser.result());
  return options;
}

absl::StatusOr<AgentProcessOptions> parse_agent_flags(const std::vector<std::string>& flags) {
  const auto end = std::find(flags.begin(), flags.end(), "--");
  ASSIGN_OR_RETURN(auto pairs, pairs_of({flags.begin(), end}));
  AgentProcessOptions options;
  Parser parser(std::move(pairs));
  visit_agent_flags(options, [&](const char* name, auto& value) { parser(name, value); });
  RETURN_IF_ERROR(parser.result());
  if (end != flags.end()) options.worker_arguments.assign(end + 1, flags.end());
  return options;
}

absl::Status run_controller(const ControllerServerOptions& options) {
  prctl(PR_SET_NAME, "evermoe.ctl");  // for ps and top
  configure_log("controller", LogLevel::kInfo);
  ASSIGN_OR_RETURN(const auto server, ControllerServer::start(options, real_clock()));
  log_info(absl::StrCat("controller ", options.relay.life, " listens at ", server->address()));
  const EndJob end = server->run();
  if (end.ok) return absl::OkStatus();
  return end.bad_input ? InvalidInput(end.reason) : Internal(end.reason);
}

absl::Status run_agent(const AgentProcessOptions& options) {
  const std::string name = absl::StrCat("agent ", options.agent.core.node.value);
  prctl(PR_SET_NAME, absl::StrCat("evermoe.", name).c_str());
  configure_log(name, LogLevel::kInfo);
  AgentOptions own = options.agent;
  own.core.pid = ::getpid();
  own.command = command_of(options);
  ASSIGN_OR_RETURN(const auto agent, Agent::start(std::move(own), real_clock()));
  return agent->run();
}

}  // namespace evermoe
