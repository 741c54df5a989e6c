#include "sim/control_plane.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/folder/job_end.h"
#include "control/hosting/may_host_later.h"

namespace evermoe {
namespace {

constexpr char kFolder[] = "out";
constexpr char kJob[] = "the job";

Machine machine_of(Node node) { return Machine(node.value); }

}  // namespace

ControlPlane::ControlPlane(SimulatedNetwork& time, ControlNetwork& network,
                           const Topology& topology, ControlPlaneOptions options,
                           WorkerHost& workers, Surroundings surroundings)
    : time_(time),
      network_(network),
      topology_(topology),
      options_(std::move(options)),
      workers_(workers),
      around_(std::move(surroundings)),
      folder_(around_.is_disk_full) {
  if (options_.has_store) store_ = std::make_unique<SimulatedStore>(time, options_.store);
}

ControlPlane::~ControlPlane() = default;

absl::Duration ControlPlane::draw(absl::Duration max) {
  return absl::Microseconds(
      static_cast<int64_t>(time_.draw(static_cast<uint64_t>(absl::ToInt64Microseconds(max)) + 1)));
}

void ControlPlane::begin() {
  if (!options_.has_store) (void)begin_host(kHeadMachine, kControllerAddress);
  for (int32_t n = 0; n < options_.controller.nodes + options_.controller.spares; ++n) {
    if (options_.late_node != Node(n)) start_node(Node(n));
  }
  if (options_.late_node.value >= 0) time_.after(options_.late, [this] { join_late(); });
  look();
}

// ---- hosts

SimulatedHostOptions ControlPlane::host_options(Machine machine, const std::string& address,
                                                const FolderTerm& term) const {
  SimulatedHostOptions options;
  options.machine = machine;
  options.address = address;
  options.term = term;
  options.core = options_.controller;
  options.relay = options_.relay;
  options.silence_max = options_.agent.silence_max;
  options.retry = options_.agent.retry;
  options.start_max = options_.start_max;
  options.farewell_max = options_.farewell_max;
  options.term_check = options_.term_check;
  options.lanes = handed_on_;
  return options;
}

SimulatedHost::Events ControlPlane::host_events(Machine machine, const FolderTerm& term) {
  return {.tell = around_.tell,
          .mark = around_.mark,
          .on_node_lost = [this](const NodeLost& lost) { hear(lost); },
          .on_end = [this](const EndJob& end) { on_end(end); },
          .on_left = [this, machine] { on_left(machine); },
          .hand_on = [this, term](const auto& lanes) { hand_on(term, lanes); },
          .check_term = [this, term] { return check_term(folder_, kFolder, term); },
          .mark_end = [this, term](const EndJob& end) { mark_end(term, end); },
          .own_end = [this, term] { return end_of(folder_, kFolder, term); },
          .end_by_former = [this, term] { return end_by_former(folder_, kFolder, term); }};
}

// An error: the disk does not let it take a term.
absl::Status ControlPlane::begin_host(Machine machine, const std::string& address) {
  const absl::StatusOr<FolderTerm> term =
      take_next_term(folder_, kFolder, absl::StrCat("host ", hosts_.size()), kJob,
                     [](const std::string& job) { return job == kJob; });
  if (!term.ok()) {
    around_.mark("term refused by the disk");
    around_.tell(absl::StrCat(address, " cannot host: ", term.status().message()));
    return term.status();
  }
  if (!hosts_.empty()) {
    around_.mark("taken over by another host");
    around_.tell(absl::StrCat(address, " takes the job over with term ", term->number));
  }
  hosts_.push_back(std::make_unique<SimulatedHost>(time_, network_, topology_,
                                                   host_options(machine, address, *term),
                                                   host_events(machine, *term)));
  return absl::OkStatus();
}

std::optional<std::string> ControlPlane::end_in_folder() {
  const absl::StatusOr<NewestTerm> newest = newest_term(folder_, kFolder);
  if (!newest.ok()) return std::nullopt;
  return newest->end ? newest->end : end_by_former(folder_, kFolder, newest->term);
}

SimulatedHost* ControlPlane::host() {
  if (hosts_.empty() || hosts_.back()->has_left()) return nullptr;
  return hosts_.back().get();
}

std::optional<Node> ControlPlane::host_node() {
  if (store_ == nullptr || host() == nullptr) return std::nullopt;
  return Node(host()->machine().value);
}

void ControlPlane::kill_controller() {
  if (host() != nullptr) host()->kill_controller();
}

void ControlPlane::stop_controller(absl::Duration time) {
  if (host() != nullptr) host()->stop_controller(time);
}

void ControlPlane::want(const MoveWanted& wish) {
  if (host() != nullptr) host()->want(wish);
}

void ControlPlane::drain() {
  if (host() != nullptr) host()->drain();
}

void ControlPlane::change_host(absl::Duration time) {
  if (host() == nullptr || !host()->has_controller() || end_) return;
  if (store_ != nullptr) {
    excused_until_ = time_.now() + options_.candidate.election.ttl;
    return store_->forget();
  }
  host()->look_away(time);
  (void)begin_host(kHeadMachine, kControllerAddress);
}

void ControlPlane::hear(const NodeLost& lost) {
  const auto agent = agents_.find(lost.node);
  if (agent == agents_.end() || agent->second->pid() != lost.agent) return;
  around_.mark("living node given up");
  if (!options_.ends_lost_nodes || options_.has_store) return;
  around_.tell(absl::StrCat("node ", lost.node.value, " is ended: ", lost.why));
  kill_node(lost.node);
}

// A disk that is full may refuse it: then who is elected cannot know.
void ControlPlane::mark_end(const FolderTerm& term, const EndJob& end) {
  is_end_written_ = is_end_written_ && !around_.is_disk_full();
  (void)evermoe::mark_end(folder_, kFolder, term, end);
}

// Who is no host any more has nothing to add.
void ControlPlane::hand_on(const FolderTerm& term, const std::vector<LanesChanged>& lanes) {
  if (check_term(folder_, kFolder, term).ok()) handed_on_ = lanes;
}

void ControlPlane::on_end(const EndJob& end) {
  if (end_) return;
  end_ = end;
  farewell_ends_ = time_.now() + options_.farewell_max;
}

// ---- with a store, as in node_hosting.cc

SimulatedHost* ControlPlane::session_on(Node node) {
  for (const auto& host : hosts_) {
    if (host->machine() == machine_of(node) && !host->has_left()) return host.get();
  }
  return nullptr;
}

void ControlPlane::start_candidate(Node node) {
  SimulatedCandidate::Options own = options_.candidate;
  own.election.address = absl::StrCat("node-", node.value);
  SimulatedCandidate::Events events;
  events.on_won = [this, node] { try_to_host(node); };
  events.on_lost = [this, node](const std::string& why) { end_hosting(node, why); };
  events.on_host = [this, node](const std::string& address) {
    if (address.empty() && session_on(node) != nullptr)
      without_host_.insert(node);
    else
      tell_agent(node, address);
  };
  candidates_[node] = std::make_unique<SimulatedCandidate>(time_, network_, machine_of(node),
                                                           *store_, own, std::move(events));
}

void ControlPlane::tell_agent(Node node, const std::string& host) {
  without_host_.erase(node);
  if (const auto agent = agents_.find(node); agent != agents_.end())
    agent->second->look_for_controller_at(host);
}

// Until somebody else hosts, its agent has stayed with it.
void ControlPlane::on_left(Machine machine) {
  if (without_host_.contains(Node(machine.value))) tell_agent(Node(machine.value), "");
}

void ControlPlane::try_to_host(Node node) {
  check_election();
  SimulatedCandidate& candidate = *candidates_.at(node);
  if (SimulatedHost* const former = session_on(node)) former->leave("it is no longer elected");
  if (const auto how = end_in_folder()) {
    if (!end_) around_.mark("end found by the next host");
    return on_end(end_that(*how));
  }
  if (end_ && is_end_written_) {
    violations_.push_back(absl::StrCat(
        candidate.address(), " begins to host a job that has ended: its end is forgotten"));
  }
  if (end_) return;
  if (!hosts_.empty() && around_.has_final_state()) {
    around_.mark("nothing left to host");
    const EndJob end{true, false, "all steps are done"};
    mark_end(hosts_.back()->term(), end);
    return on_end(end);
  }
  const absl::Status begun = begin_host(machine_of(node), candidate.address());
  if (begun.ok()) return;
  if (!may_host_later(begun, !hosts_.empty(), /*has_workers=*/false))
    return time_.after(absl::ZeroDuration(), [this, node] { kill_node(node); });
  candidate.stand(false);
  network_.after(candidate.process(), options_.host_pause, [&candidate] { candidate.stand(true); });
}

// It has the margin of the lease for that.
void ControlPlane::end_hosting(Node node, const std::string& why) {
  SimulatedHost* const session = session_on(node);
  if (session == nullptr) return;
  around_.mark("host no longer elected");
  network_.after(candidates_.at(node)->process(), draw(options_.candidate.election.margin),
                 [session, why] { session->leave(why); });
}

void ControlPlane::end_candidate(Node node) {
  const auto candidate = candidates_.find(node);
  if (candidate == candidates_.end()) return;
  network_.end(candidate->second->process());
  ended_.push_back(std::move(candidate->second));
  candidates_.erase(candidate);
}

// A host that runs leaves soon after another one has taken a newer term.
void ControlPlane::look_after_terms() {
  const absl::Duration leaves_within =
      3 * options_.term_check +
      (options_.has_store ? options_.candidate.election.margin : absl::ZeroDuration());
  for (size_t i = 0; i + 1 < hosts_.size(); ++i) {
    const SimulatedHost& old = *hosts_[i];
    absl::Duration& looked_up = outlived_since_.try_emplace(i, time_.now()).first->second;
    if (old.has_left() || !old.can_look()) looked_up = time_.now();
    if (time_.now() <= looked_up + leaves_within) continue;
    looked_up = absl::InfiniteDuration();  // said once
    violations_.push_back(absl::StrCat("the host of term ", old.term().number, " still acts at ",
                                       absl::FormatDuration(time_.now()), " though term ",
                                       hosts_.back()->term().number, " was taken"));
  }
}

void ControlPlane::check_election() {
  if (store_ == nullptr || time_.now() < excused_until_) return;
  const std::optional<ElectedHost> holder = store_->holder();
  for (const auto& [node, candidate] : candidates_) {
    if (candidate->is_stopped() || !candidate->holds()) continue;
    if (holder && holder->address == candidate->address()) continue;
    violations_.push_back(
        absl::StrCat(candidate->address(), " believes at ", absl::FormatDuration(time_.now()),
                     " that it is elected, which ", holder ? holder->address : "nobody", " is"));
  }
}

// A round that began before, the longest pause, and the next round: none of them longer than two.
void ControlPlane::look_after_network() {
  const absl::Duration judged_within =
      2 * (options_.controller.network_max + options_.relay.network.pauses.of_fit);
  if (host() == nullptr || end_ || time_.now() < network_.disturbed_until() + judged_within) return;
  for (const auto& [node, agent] : agents_) {
    if (!host()->leaves_out(node) || !left_out_.insert(node).second) continue;
    violations_.push_back(absl::StrCat("node ", node.value, " is still left out at ",
                                       absl::FormatDuration(time_.now()), " though all reach it"));
  }
}

// ---- what keeps them alive

void ControlPlane::look() {
  ended_.clear();
  look_after_nodes();
  check_election();
  look_after_terms();
  look_after_network();
  const bool has_controller =
      std::any_of(hosts_.begin(), hosts_.end(), [](const auto& h) { return h->has_controller(); });
  if (end_ && ((!has_controller && agents_.empty()) || time_.now() >= farewell_ends_)) {
    if (has_controller || !agents_.empty()) around_.mark("killed at the farewell");
    if (is_end_written_ && !end_in_folder())
      violations_.push_back("the job is over, and its folder does not say so");
    for (const auto& [node, agent] : agents_) workers_.kill_all_of(agent->address());
    is_over_ = true;
    return time_.end();
  }
  if (hosts_.empty() && !options_.has_store) (void)begin_host(kHeadMachine, kControllerAddress);
  time_.after(options_.agent.beat / 2, [this] { look(); });
}

std::vector<RecoveryRecord> ControlPlane::recoveries() const {
  std::vector<RecoveryRecord> records;
  for (const auto& host : hosts_) {
    for (RecoveryRecord& record : host->recoveries()) records.push_back(std::move(record));
  }
  return records;
}

std::vector<MoveRecord> ControlPlane::moves() const {
  std::vector<MoveRecord> records;
  for (const auto& host : hosts_) {
    for (MoveRecord& record : host->moves()) records.push_back(std::move(record));
  }
  return records;
}

std::vector<StragglerFound> ControlPlane::stragglers() const {
  std::vector<StragglerFound> found;
  for (const auto& host : hosts_)
    found.insert(found.end(), host->stragglers().begin(), host->stragglers().end());
  return found;
}

std::vector<SlowLinkFound> ControlPlane::slow_links() const {
  std::vector<SlowLinkFound> found;
  for (const auto& host : hosts_)
    found.insert(found.end(), host->slow_links().begin(), host->slow_links().end());
  return found;
}

std::vector<LanesChanged> ControlPlane::lanes() const {
  return hosts_.empty() ? std::vector<LanesChanged>() : hosts_.back()->lanes();
}

int64_t ControlPlane::controllers() const {
  int64_t count = 0;
  for (const auto& host : hosts_) count += host->controllers();
  return count;
}

void ControlPlane::watch(const AgentAction& action) {
  if (std::holds_alternative<ToAskers>(action)) around_.mark("plan told to another agent");
  if (std::holds_alternative<CutAsker>(action)) around_.mark("agent refuses another one a plan");
  if (const auto* const stop = std::get_if<StopAsking>(&action);
      stop != nullptr && !stop->why.empty())
    around_.mark(absl::StartsWith(stop->why, "no answer")
                     ? "agent waits in vain for another one's plan"
                     : "agent does not get another one's plan");
  if (const auto* const send = std::get_if<ToController>(&action)) {
    if (std::holds_alternative<WorkerStarted>(send->envelope.message) && controllers() > 1)
      around_.mark(hosts_.size() > 1 ? "agent follows the next host"
                                     : "worker shown to a new controller");
  }
  if (const auto* const quit = std::get_if<QuitAgent>(&action); quit != nullptr && !quit->ok)
    around_.mark("agent gives up");
}

}  // namespace evermoe
