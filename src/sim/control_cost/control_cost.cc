#include "sim/control_cost/control_cost.h"

#include <signal.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "control/agent/agent_core.h"
#include "control/controller/relay/controller_relay.h"
#include "control/wire/control_codec.h"
#include "env/clock.h"
#include "sim/control_cost/scripted_member.h"

namespace evermoe {
namespace {

constexpr int kSpares = 2;
constexpr absl::Duration kTick = absl::Milliseconds(250);
constexpr absl::Duration kBeat = absl::Milliseconds(500);
constexpr absl::Duration kStep = absl::Seconds(1);
constexpr int64_t kSteps = 60;
constexpr absl::Duration kPatience = absl::Minutes(2);

// A machine: its agent, and the members that play roles on it, by start.
struct ScriptedMachine {
  AgentCore agent;
  std::optional<StreamNumber> stream;  // to the controller
  std::map<int64_t, std::pair<pid_t, ScriptedMember>> members;
  std::deque<std::pair<StreamNumber, Envelope>> heard;  // by its agent, from its members
  std::optional<int> asked;                             // for a plan: another machine
  std::map<int64_t, int> partners;                      // asked, by the number of the question
  int64_t said = 0;                                     // bytes
};

class Cluster {
 public:
  explicit Cluster(const ControlCostOptions& options);

  ControlCost begin();
  ControlCost train();
  ControlCost lose_machine(int machine);
  ControlCost replace_controller();

 private:
  void start_controller();
  void pass(absl::Duration time);
  // Until all roles are in one open view, newer than the one they were in.
  void settle();
  bool are_all_in(View view) const;
  void commit(Step step);

  void deliver();
  void to_machine(int machine, const Envelope& envelope);
  void between_agents(int machine, const AgentAction& action);
  void ask_partner(int machine, const AskPartner& ask);
  void to_asker(int machine, StreamNumber line, const Envelope& envelope);
  void to_controller(int machine, const Envelope& envelope);
  void apply(const std::vector<RelayAction>& actions);
  void apply(int machine, const AgentActions& actions);
  void apply_one(int machine, const AgentAction& action);
  void spawn(int machine, const SpawnWorker& spawn);
  void to_worker(int machine, const ToWorker& to);
  ScriptedMember::Say mouth_of(int machine, pid_t pid);
  template <typename Work>
  auto timed(const Work& work) {
    const absl::Duration began = real_clock().now();
    auto result = work();
    cost_.seconds += absl::ToDoubleSeconds(real_clock().now() - began);
    return result;
  }
  ControlCost finish(std::string what) {
    cost_.what = std::move(what);
    for (const auto& machine : machines_) {
      if (machine != nullptr)
        cost_.agent_bytes = std::max(cost_.agent_bytes, std::exchange(machine->said, 0));
    }
    return std::exchange(cost_, {});
  }

  const Topology topology_;
  ControllerOptions core_;
  absl::Duration now_ = absl::Seconds(1000);
  absl::Duration beat_at_ = absl::ZeroDuration();
  std::unique_ptr<ControllerRelay> relay_;
  int64_t life_ = -1, streams_ = 0;
  pid_t pids_ = 0;
  std::vector<std::unique_ptr<ScriptedMachine>> machines_;  // null: lost
  std::map<StreamNumber, int> by_stream_;
  std::deque<std::pair<int, Envelope>> down_, up_;  // on their way to machines, to the controller
  std::deque<std::function<void()>> across_;        // between agents
  View view_;                                       // that all were in
  View entered_;                                    // the newest one that anybody has entered
  Step step_;
  ControlCost cost_;
};

std::vector<int> lanes_of(const ControlCostOptions& options) {
  const int world = options.machines * options.roles_per_machine;
  const int stages = std::max(2, (world + options.lanes_max - 1) / options.lanes_max);
  return std::vector<int>(static_cast<size_t>(stages), world / stages);
}

Cluster::Cluster(const ControlCostOptions& options)
    : topology_(lanes_of(options), static_cast<int>(lanes_of(options).size())) {
  core_.nodes = options.machines;
  core_.spares = kSpares;
  core_.silence_max = absl::Minutes(1);
  core_.network_max = absl::Seconds(5);
  for (int m = 0; m < options.machines + kSpares; ++m) {
    AgentCoreOptions agent;
    agent.node = Node(m);
    agent.pid = ++pids_;
    agent.beat = kBeat;
    machines_.push_back(std::make_unique<ScriptedMachine>(
        ScriptedMachine{AgentCore(agent, now_), {}, {}, {}, {}, {}, 0}));
  }
}

// ---- what happens

ControlCost Cluster::begin() {
  start_controller();
  settle();
  return finish("the job begins");
}

ControlCost Cluster::train() {
  for (int64_t n = 0; n < kSteps; ++n) {
    pass(kStep);
    commit(Step(++step_.value));
  }
  ControlCost cost = finish(absl::StrCat(kSteps, " steps of a second"));
  cost.job_seconds = absl::ToDoubleSeconds(kSteps * kStep);
  return cost;
}

ControlCost Cluster::lose_machine(int machine) {
  for (const auto& [start, lost] : machines_[static_cast<size_t>(machine)]->members) {
    for (const auto& other : machines_) {
      if (other == nullptr) continue;
      for (auto& [number, member] : other->members) {
        if (member.second.stage() == lost.second.stage()) member.second.leave_step();
      }
    }
  }
  const StreamNumber stream = *machines_[static_cast<size_t>(machine)]->stream;
  machines_[static_cast<size_t>(machine)] = nullptr;
  by_stream_.erase(stream);
  apply(timed([&] { return relay_->on_broken(now_, stream, "it has gone"); }));
  settle();
  return finish("a machine is lost");
}

ControlCost Cluster::replace_controller() {
  relay_.reset();
  by_stream_.clear();
  down_.clear();
  up_.clear();
  start_controller();
  for (size_t m = 0; m < machines_.size(); ++m) {
    if (machines_[m] != nullptr)
      apply(static_cast<int>(m), machines_[m]->agent.on_controller_broken(now_));
  }
  pass(absl::Seconds(5));
  CHECK(relay_->end() == std::nullopt && are_all_in(view_)) << "a view was opened";
  return finish("another controller");
}

void Cluster::start_controller() {
  ControllerOptions core = core_;
  core.takes_over = ++life_ > 0;
  relay_ = timed([&] {
    return std::make_unique<ControllerRelay>(topology_, core, RelayOptions{.life = life_}, now_);
  });
}

void Cluster::settle() {
  const absl::Duration deadline = now_ + kPatience;
  const View before = view_;
  for (;; pass(kTick)) {
    CHECK(now_ < deadline) << "the job does not go on";
    CHECK(!relay_->end()) << relay_->end()->reason;
    if (entered_ > before && are_all_in(entered_)) {
      view_ = entered_;
      return;
    }
  }
}

bool Cluster::are_all_in(View view) const {
  int roles = 0;
  for (const auto& machine : machines_) {
    if (machine == nullptr) continue;
    for (const auto& [start, member] : machine->members) roles += member.second.is_in(view) ? 1 : 0;
  }
  return roles == topology_.world_size();
}

void Cluster::commit(Step step) {
  for (size_t m = 0; m < machines_.size(); ++m) {
    if (machines_[m] == nullptr) continue;
    for (auto& [start, member] : machines_[m]->members)
      member.second.commit(step, mouth_of(static_cast<int>(m), member.first));
  }
  deliver();
}

void Cluster::pass(absl::Duration time) {
  const absl::Duration end = now_ + time;
  while (now_ < end) {
    now_ += kTick;
    const bool beats = now_ >= beat_at_;
    if (beats) beat_at_ = now_ + kBeat;
    for (size_t m = 0; m < machines_.size(); ++m) {
      if (machines_[m] == nullptr) continue;
      const int machine = static_cast<int>(m);
      apply(machine, machines_[m]->agent.on_time(now_));
      for (auto& [start, member] : machines_[m]->members) {
        if (beats) member.second.beat(mouth_of(machine, member.first));
      }
    }
    deliver();
    apply(timed([&] { return relay_->on_time(now_); }));
    deliver();
  }
}

// ---- the way of envelopes

void Cluster::deliver() {
  for (bool is_quiet = false; !is_quiet;) {
    is_quiet = true;
    for (size_t m = 0; m < machines_.size(); ++m) {
      while (machines_[m] != nullptr && !machines_[m]->heard.empty()) {
        const auto [from, envelope] = std::move(machines_[m]->heard.front());
        machines_[m]->heard.pop_front();
        apply(static_cast<int>(m), machines_[m]->agent.on_worker(now_, from, envelope));
        is_quiet = false;
      }
    }
    while (!up_.empty()) {
      const auto [machine, envelope] = std::move(up_.front());
      up_.pop_front();
      to_controller(machine, envelope);
      is_quiet = false;
    }
    while (!across_.empty()) {
      const auto arrive = std::move(across_.front());
      across_.pop_front();
      arrive();
      is_quiet = false;
    }
    while (!down_.empty()) {
      const auto [machine, envelope] = std::move(down_.front());
      down_.pop_front();
      to_machine(machine, envelope);
      is_quiet = false;
    }
  }
}

void Cluster::to_controller(int machine, const Envelope& envelope) {
  if (machines_[static_cast<size_t>(machine)] == nullptr) return;
  const StreamNumber stream = *machines_[static_cast<size_t>(machine)]->stream;
  if (!by_stream_.contains(stream)) return;
  const std::string bytes = encode(envelope);
  machines_[static_cast<size_t>(machine)]->said += std::ssize(bytes);
  ++cost_.messages_in;
  cost_.bytes_in += std::ssize(bytes);
  apply(timed([&] { return relay_->on_envelope(now_, stream, *decode_envelope(bytes)); }));
}

void Cluster::to_machine(int machine, const Envelope& envelope) {
  ScriptedMachine* const there = machines_[static_cast<size_t>(machine)].get();
  if (there != nullptr) apply(machine, there->agent.on_controller(now_, envelope));
}

void Cluster::apply(const std::vector<RelayAction>& actions) {
  for (const RelayAction& action : actions) {
    const auto* const send = std::get_if<SendEnvelope>(&action);
    if (send == nullptr) continue;
    const std::string bytes = timed([&] { return encode(send->envelope); });
    ++cost_.messages_out;
    cost_.bytes_out += std::ssize(bytes);
    if (const auto to = by_stream_.find(send->to); to != by_stream_.end())
      down_.emplace_back(to->second, send->envelope);
  }
}

void Cluster::apply(int machine, const AgentActions& actions) {
  for (const AgentAction& action : actions) apply_one(machine, action);
}

void Cluster::apply_one(int machine, const AgentAction& action) {
  ScriptedMachine& there = *machines_[static_cast<size_t>(machine)];
  if (std::holds_alternative<AttachController>(action)) {
    there.stream = StreamNumber(++streams_);
    by_stream_[*there.stream] = machine;
  } else if (const auto* const send = std::get_if<ToController>(&action)) {
    up_.emplace_back(machine, send->envelope);
    if (auto* const hello = std::get_if<AgentHello>(&up_.back().second.message))
      hello->lines = absl::StrCat(machine);
  } else if (const auto* const to = std::get_if<ToWorker>(&action)) {
    to_worker(machine, *to);
  } else if (const auto* const begin = std::get_if<SpawnWorker>(&action)) {
    spawn(machine, *begin);
  } else {
    CHECK(!std::holds_alternative<QuitAgent>(action)) << "a machine gives up";
    between_agents(machine, action);
  }
}

// An asker's line has the number after that of its machine, and above it that of its question; 0:
// for a plan.
constexpr int64_t kLinesOfQuestion = 1 << 20;
StreamNumber line_of(int machine, int64_t question) {
  return StreamNumber(question * kLinesOfQuestion + machine + 1);
}
int asker_on(StreamNumber line) { return static_cast<int>(line.value % kLinesOfQuestion) - 1; }
int64_t question_on(StreamNumber line) { return line.value / kLinesOfQuestion; }

void Cluster::ask_partner(int machine, const AskPartner& ask) {
  std::string bytes = encode({0, ask.question});
  machines_[static_cast<size_t>(machine)]->partners[ask.number] = std::stoi(ask.at);
  machines_[static_cast<size_t>(machine)]->said += std::ssize(bytes);
  across_.emplace_back([this, to = std::stoi(ask.at), line = line_of(machine, ask.number),
                        bytes = std::move(bytes)] {
    if (ScriptedMachine* const there = machines_[static_cast<size_t>(to)].get(); there != nullptr)
      apply(to, there->agent.on_asker(now_, line, *decode_envelope(bytes)));
  });
}

void Cluster::between_agents(int machine, const AgentAction& action) {
  std::optional<int>& asked = machines_[static_cast<size_t>(machine)]->asked;
  const StreamNumber line = line_of(machine, 0);
  if (const auto* const ask = std::get_if<AskForPlan>(&action)) {
    asked = std::stoi(ask->at);
    const Envelope wanted{0, PlanWanted{ask->plan}};
    across_.emplace_back([this, to = *asked, line, wanted] {
      if (ScriptedMachine* const there = machines_[static_cast<size_t>(to)].get(); there != nullptr)
        apply(to, there->agent.on_asker(now_, line, wanted));
    });
  } else if (std::holds_alternative<StopAsking>(action) && asked) {
    across_.emplace_back([this, to = *std::exchange(asked, std::nullopt), line] {
      if (ScriptedMachine* const there = machines_[static_cast<size_t>(to)].get(); there != nullptr)
        apply(to, there->agent.on_asker_broken(now_, line));
    });
  } else if (const auto* const told = std::get_if<ToAskers>(&action)) {
    for (const StreamNumber to : told->to) to_asker(machine, to, told->envelope);
  } else if (const auto* const question = std::get_if<AskPartner>(&action)) {
    ask_partner(machine, *question);
  } else if (const auto* const drop = std::get_if<DropQuestion>(&action)) {
    const auto partner = machines_[static_cast<size_t>(machine)]->partners.extract(drop->number);
    across_.emplace_back([this, to = partner.mapped(), line = line_of(machine, drop->number)] {
      if (ScriptedMachine* const there = machines_[static_cast<size_t>(to)].get(); there != nullptr)
        apply(to, there->agent.on_asker_broken(now_, line));
    });
  } else if (const auto* const cut = std::get_if<CutAsker>(&action)) {
    across_.emplace_back([this, to = asker_on(cut->stream)] {
      if (ScriptedMachine* const there = machines_[static_cast<size_t>(to)].get(); there != nullptr)
        apply(to, there->agent.on_asked_agent_broken(now_, "cut"));
    });
  }
}

void Cluster::to_asker(int machine, StreamNumber line, const Envelope& envelope) {
  std::string bytes = encode(envelope);
  machines_[static_cast<size_t>(machine)]->said += std::ssize(bytes);
  across_.emplace_back([this, machine, line, bytes = std::move(bytes)] {
    const int asker = asker_on(line);
    ScriptedMachine* const there = machines_[static_cast<size_t>(asker)].get();
    if (there == nullptr) return;
    const Envelope told = *decode_envelope(bytes);
    if (const int64_t question = question_on(line); question > 0)
      apply(asker, there->agent.on_partner(now_, question, told));
    else if (there->asked == machine)
      apply(asker, there->agent.on_asked_agent(now_, told));
  });
}

void Cluster::spawn(int machine, const SpawnWorker& spawn) {
  ScriptedMachine& there = *machines_[static_cast<size_t>(machine)];
  const pid_t pid = ++pids_;
  there.members.emplace(
      spawn.start,
      std::pair(pid, ScriptedMember(spawn.rank, spawn.since, topology_.role_of(spawn.rank).stage)));
  apply(machine, there.agent.on_spawned(now_, spawn.start, pid));
  there.heard.emplace_back(StreamNumber(pid), Envelope{0, WorkerHello{pid}});
}

void Cluster::to_worker(int machine, const ToWorker& to) {
  for (auto& [start, member] : machines_[static_cast<size_t>(machine)]->members) {
    if (member.first != to.to.value) continue;
    const auto say = mouth_of(machine, member.first);
    if (const auto* const welcome = std::get_if<Welcome>(&to.envelope.message))
      member.second.obey(*welcome, say);
    if (const auto* const order = std::get_if<SendOrder>(&to.envelope.message))
      member.second.obey(order->message, say);
    entered_ = std::max(entered_, member.second.entered());
  }
}

ScriptedMember::Say Cluster::mouth_of(int machine, pid_t pid) {
  return [&there = *machines_[static_cast<size_t>(machine)], pid](ControlMessage message) {
    there.heard.emplace_back(StreamNumber(pid), Envelope{0, std::move(message)});
  };
}

}  // namespace

std::vector<ControlCost> measure_control_cost(const ControlCostOptions& options) {
  Cluster cluster(options);
  std::vector<ControlCost> costs;
  costs.push_back(cluster.begin());
  costs.push_back(cluster.train());
  costs.push_back(cluster.lose_machine(1));
  costs.push_back(cluster.replace_controller());
  costs.push_back(cluster.lose_machine(2));
  return costs;
}

}  // namespace evermoe
