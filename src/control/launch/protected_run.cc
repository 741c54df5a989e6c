#include "control/launch/protected_run.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "control/folder/job_end.h"
#include "control/folder/job_folder.h"
#include "control/hosting/host_place.h"
#include "control/launch/control_children.h"
#include "control/launch/controller_line.h"
#include "control/launch/process_faults.h"
#include "control/launch/run_story.h"
#include "control/launch/signal_inbox.h"
#include "faults/injected_faults.h"

namespace evermoe {
namespace {

// How long controller and agents may take to end by themselves after the job.
constexpr absl::Duration kFarewellMax = absl::Seconds(10);
constexpr absl::Duration kSleepMax = absl::Milliseconds(500);
constexpr absl::Duration kUnattachedSleepMax = absl::Milliseconds(50);
// A former host has so long to leave the address to this one.
constexpr absl::Duration kControllerPause = absl::Milliseconds(250);
constexpr int kPlaceWaitsMax = 40;

ControllerLineOptions line_options(const ProtectedRunOptions& options,
                                   const ControlChildren& children) {
  return {.address = children.address(),
          .keys = children.keys(),
          .beat = options.agent.beat,
          .own_standstill = options.agent.own_standstill,
          .attached_max = options.agent.silence_max,
          .start_max = options.control_start_max};
}

// What is done about signals, ends of processes and the controller's words.
class ProtectedRun {
 public:
  ProtectedRun(Files& files, Clock& clock, const ProtectedRunOptions& options,
               RunObserver& observer, SignalInbox* signals, const std::set<int>& injected,
               ControlPlaces places)
      : files_(files),
        clock_(clock),
        options_(options),
        signals_(signals),
        began_(clock.now()),
        story_(files, options, observer, began_),
        faults_(options.faults, injected, injected_faults_path(options.faults_path), began_),
        children_(options, std::move(places), began_),
        line_(line_options(options, children_), clock) {}

  RunOutcome run();

 private:
  void wait();
  void hear_all();
  void take_signals();
  void on_signal(int number);
  void inject(const Fault& fault);

  void hear(const Welcome& welcome);
  void hear(const WorkerReport& report);
  void hear(const RoleProcess& process);
  void hear(const NodeLost& lost);
  void hear(const RecoveryNote& note) { story_.hear(children_.life(), note); }
  void hear(const MoveNote& note) { story_.hear(children_.life(), note); }
  void hear(const EndJob& end);
  void hear(const ConfirmTerm& question) {
    term_asked_ = question;
    is_doubt_told_ = false;
    term_check_at_ = clock_.now();
  }
  void hear(const MoveAnswer& answer) {
    if (!answer.accepted) story_.say(absl::StrCat("it is refused: ", answer.reason));
  }
  template <typename Other>
  void hear(const Other& message) {
    if constexpr (requires { story_.hear(message); }) story_.hear(message);  // else Beat
  }

  bool is_place_taken();
  void start_controller();
  void start_agent(Node node);
  void look_after_controller();
  void take_machines_away();
  void look_after_agents();
  void on_agent_lost(const ControlChildren::LostAgent& agent);
  void look_after_line();
  void look_after_term();
  void answer_about(const absl::Status& term);
  void look_after_contradiction();

  void take_wishes();
  void leave(const std::string& why);
  void mark_end(const EndJob& end);
  void end_as(const std::string& how);
  void fail(int exit_code, const std::string& reason);
  bool is_over() const;
  bool is_local() const { return options_.address.empty(); }
  void write_processes() {
    const bool has_ended = end_ || failure_;
    if (is_host_still())
      story_.write_processes(children_.pids(), has_ended ? "" : children_.address());
  }
  // What the folder says of the job is another host's to write by now, if not.
  bool is_host_still() const {
    if (has_lost_term_ || left_) return false;
    const absl::Status term = check_term(files_, options_.out, options_.term);
    return !is_replaced(term) && !is_hopeless(term);
  }

  Files& files_;
  Clock& clock_;
  const ProtectedRunOptions& options_;
  SignalInbox* const signals_;  // null: others take them
  const absl::Duration began_;
  RunStory story_;
  ProcessFaults faults_;
  ControlChildren children_;
  ControllerLine line_;
  StopRequest stop_;
  absl::Duration return_at_;                                 // of a node, when none is left
  int controller_losses_ = 0, agent_losses_ = 0;             // since the newest step
  std::vector<std::pair<absl::Duration, Node>> taken_away_;  // when machines of notices are
  std::optional<EndJob> end_;
  absl::Duration farewell_ends_;
  absl::Duration term_check_at_;
  std::optional<ConfirmTerm> term_asked_;  // and not answered
  bool is_doubt_told_ = false;
  absl::Duration controller_start_at_ = absl::InfiniteDuration();  // of the next one
  int place_waits_ = 0;
  bool has_lost_term_ = false;       // what is in the folder now belongs to another run
  std::optional<std::string> left_;  // to another host: why
  struct Failure {
    int exit_code = kExitFailed;
    std::string reason;
  };
  std::optional<Failure> failure_;
};

RunOutcome ProtectedRun::run() {
  const auto& core = options_.controller.core;
  start_controller();
  const int here = is_local() ? core.nodes + core.spares : 0;
  for (int32_t node = 0; node < here && !failure_; ++node) {
    start_agent(Node(node));
    take_signals();
  }
  while (!is_over()) {
    wait();
    take_signals();
    take_wishes();
    hear_all();
    look_after_controller();
    take_machines_away();
    look_after_agents();
    look_after_line();
    look_after_term();
    faults_.inject_due(clock_.now(), [this](const Fault& fault) { inject(fault); });
  }
  line_.hang_up();
  children_.end_all();
  story_.forget_workers();
  if (left_) return story_.taken_over(*left_);
  write_processes();
  return failure_ ? story_.outcome(failure_->exit_code, failure_->reason) : story_.outcome(*end_);
}

bool ProtectedRun::is_over() const {
  if (failure_ || left_) return true;
  if (!end_) return false;
  return (!children_.has_agents() && !children_.has_controller()) || clock_.now() >= farewell_ends_;
}

void ProtectedRun::wait() {
  std::vector<pollfd> watched{{line_.fd(), POLLIN, 0}};
  if (signals_ != nullptr) watched.push_back({signals_->fd(), POLLIN, 0});
  if (options_.orders != nullptr) watched.push_back({options_.orders->fd(), POLLIN, 0});
  for (const int fd : children_.exit_fds()) watched.push_back({fd, POLLIN, 0});
  const absl::Duration fault = std::max(faults_.next() - clock_.now(), absl::ZeroDuration());
  const absl::Duration sleep = std::min(line_.is_attached() ? kSleepMax : kUnattachedSleepMax,
                                        fault + absl::Milliseconds(1));
  ::poll(watched.data(), watched.size(), static_cast<int>(absl::ToInt64Milliseconds(sleep)));
}

void ProtectedRun::hear_all() {
  line_.take([this](const ControlMessage& message) {
    std::visit([this](const auto& m) { hear(m); }, message);
  });
}

void ProtectedRun::take_signals() {
  if (signals_ == nullptr) return;
  for (const int number : signals_->take()) on_signal(number);
}

void ProtectedRun::on_signal(int number) {
  const std::string name = number == SIGINT ? "interrupted" : absl::StrCat("signal ", number);
  const StopRequest::Meaning meaning = stop_.on_signal(clock_.now());
  if (meaning == StopRequest::Meaning::kRepeat) return;
  if (meaning == StopRequest::Meaning::kQuit) {
    story_.say(name + ": quitting at once");
    return fail(kExitSignal + number, name + " again: quit at once");
  }
  story_.say(name + ": the workers finish their step, save and end; once more quits at once");
  line_.send(Drain{});
}

void ProtectedRun::inject(const Fault& fault) {
  story_.say(absl::StrCat("a rehearsed fault is injected: ", to_string(fault)));
  if (fault.kind == FaultKind::kKillController) children_.kill_controller();
  if (fault.kind == FaultKind::kKillNode || fault.kind == FaultKind::kLoseNode)
    children_.kill_agent(Node(fault.node));
  if (fault.kind == FaultKind::kNoticeNode) {
    line_.send(MoveWanted{.drained = Node(fault.node)});
    taken_away_.emplace_back(clock_.now() + absl::Seconds(fault.seconds), Node(fault.node));
  }
  if (fault.kind == FaultKind::kReturnNode || fault.kind == FaultKind::kAddNode) {
    if (is_local() && !children_.has_agent(Node(fault.node))) start_agent(Node(fault.node));
  }
  if (is_of_run(fault.kind)) return;
  const auto worker = story_.worker(absl::StrCat(fault.role.stage, ".", fault.role.lane));
  if (!worker) return;
  if (fault.kind == FaultKind::kKillWorker) ::kill(*worker, SIGKILL);
  if (fault.kind == FaultKind::kStopWorker) ::kill(*worker, SIGSTOP);
}

void ProtectedRun::take_wishes() {
  if (options_.orders == nullptr) return;
  for (const HostOrders::Wish& wish : options_.orders->take()) {
    if (end_) continue;
    if (wish.resigns)
      leave(wish.why);
    else
      fail(kExitFailed, wish.why);
  }
}

// What lives of the job goes on without this host.
void ProtectedRun::leave(const std::string& why) {
  if (left_ || failure_) return;
  story_.say(absl::StrCat("this host leaves the job: ", why));
  left_ = why;
}

void ProtectedRun::fail(int exit_code, const std::string& reason) {
  if (!failure_) failure_ = Failure{exit_code, reason};
}

// ---- what the controller says

void ProtectedRun::hear(const Welcome& welcome) {
  term_asked_.reset();  // by another one
  // Another host's controller, where ours was: what we want is nothing to it.
  if (welcome.term != options_.term) {
    term_check_at_ = clock_.now();
    return line_.hang_up();
  }
  if (stop_.is_drain_wanted()) line_.send(Drain{});
}

void ProtectedRun::hear(const WorkerReport& report) {
  if (!story_.hear(clock_.now(), report)) return;
  controller_losses_ = agent_losses_ = 0;
  faults_.inject_after(report.step, [this](const Fault& fault) { inject(fault); });
}

void ProtectedRun::hear(const RoleProcess& process) {
  story_.hear(process);
  write_processes();
}

// A node that the controller has given up must not go on, not even when it was only stopped.
void ProtectedRun::hear(const NodeLost& lost) {
  if (!children_.is_agent(lost.node, lost.agent)) return;
  story_.say(absl::StrCat("node ", lost.node.value, " is ended: ", lost.why));
  children_.kill_agent(lost.node);
}

// What a controller says of a job that another host has by now is no end of it, unless all
// processes had ended well: whom should the other host still meet?
void ProtectedRun::hear(const EndJob& end) {
  if (end_) return;
  if (const absl::Status term = check_term(files_, options_.out, options_.term);
      is_replaced(term) && !is_local()) {
    if (end.ok && check_no_contradiction(files_, options_.out).ok()) mark_end(end);
    return leave(std::string(term.message()));
  }
  end_ = end;
  if (const absl::Status none = check_no_contradiction(files_, options_.out); !none.ok())
    end_ = EndJob{.reason = std::string(none.message()), .is_hopeless = true};
  if (!has_lost_term_ && check_term(files_, options_.out, options_.term).ok()) mark_end(*end_);
  farewell_ends_ = clock_.now() + kFarewellMax;
  line_.detach();
}

void ProtectedRun::look_after_line() {
  if (end_)
    line_.hang_up();
  else if (!failure_)
    line_.look_after();
}

// So that the next host begins another job.
void ProtectedRun::mark_end(const EndJob& end) {
  const absl::Status marked = evermoe::mark_end(files_, options_.out, options_.term, end);
  if (!marked.ok()) story_.say(absl::StrCat("warning: ", marked.message()));
}

// It was not told to this host: nobody will come.
void ProtectedRun::end_as(const std::string& how) {
  end_ = end_that(how);
  if (!check_no_contradiction(files_, options_.out).ok()) end_->is_hopeless = true;
  mark_end(*end_);
  farewell_ends_ = clock_.now();
}

// Of another job: the controller ends this one, on all nodes; where it does not, the run ends what
// is here.
void ProtectedRun::look_after_term() {
  if (end_ || failure_ || left_ || clock_.now() < term_check_at_) return;
  term_check_at_ = clock_.now() + kTermCheckEvery;
  const absl::Status term = check_term(files_, options_.out, options_.term);
  if (is_replaced(term) && !is_local()) return leave(std::string(term.message()));
  if (const auto how = end_by_former(files_, options_.out, options_.term); how && !is_local()) {
    story_.say(absl::StrCat("the job has ended under the host before this one: ", *how));
    return end_as(*how);
  }
  answer_about(term);
  if (!is_hopeless(term) && !is_replaced(term)) return look_after_contradiction();
  const std::string why(term.message());
  if (!has_lost_term_) story_.say(why);
  if (std::exchange(has_lost_term_, true) || !line_.is_attached()) return fail(kExitHopeless, why);
  line_.send(EndJob{.ok = false, .bad_input = false, .reason = why});
}

void ProtectedRun::answer_about(const absl::Status& term) {
  if (!term_asked_ || !line_.is_attached() || is_replaced(term) || is_hopeless(term)) return;
  if (term.ok())
    line_.send(TermHeld{std::exchange(term_asked_, std::nullopt)->losses});
  else if (!std::exchange(is_doubt_told_, true))
    story_.say(
        absl::StrCat("it is not known whether the job is still this host's: ", term.message()));
}

// Who has found one has said so, too, but unheard if it was taken for lost before: then the job
// would go on.
void ProtectedRun::look_after_contradiction() {
  const absl::Status none = check_no_contradiction(files_, options_.out);
  if (none.ok() || !line_.is_attached()) return;  // the next controller is told
  line_.send(EndJob{.reason = std::string(none.message()), .is_hopeless = true});
}

// ---- processes

// A former host may not have noticed yet that it is none any more.
bool ProtectedRun::is_place_taken() {
  if (is_local() || place_waits_ >= kPlaceWaitsMax) return false;
  if (check_can_listen(options_.address).ok()) return false;
  ++place_waits_;
  controller_start_at_ = clock_.now() + kControllerPause;
  return true;
}

void ProtectedRun::start_controller() {
  if (is_place_taken()) return;
  controller_start_at_ = absl::InfiniteDuration();
  if (const absl::Status status = children_.start_controller(); !status.ok())
    return fail(kExitFailed, std::string(status.message()));
  line_.give_time();
  write_processes();
}

void ProtectedRun::look_after_controller() {
  if (left_ || failure_) return;
  if (clock_.now() >= controller_start_at_) return start_controller();
  if (!children_.has_controller()) return;
  if (const auto silence = line_.silence()) {
    story_.say(absl::StrCat("the controller is hung: no sign of life for ",
                            absl::FormatDuration(*silence)));
    line_.give_time();
    children_.kill_controller();
  }
  const std::optional<std::string> how = children_.bury_controller();
  if (!how) return;
  line_.detach();
  if (end_) return;
  // What it said last does not come if this host stood still meanwhile.
  if (const auto end = end_of(files_, options_.out, options_.term)) {
    end_as(*end);
    farewell_ends_ = clock_.now() + kFarewellMax;
    return;
  }
  story_.on_controller_end(clock_.now(), *how);
  if (++controller_losses_ > options_.control_losses_max) {
    return fail(kExitFailed, absl::StrCat("controllers end again and again; the last: ", *how));
  }
  story_.say(absl::StrCat("the controller is lost: ", *how, "; the next one takes over"));
  start_controller();
}

void ProtectedRun::start_agent(Node node) {
  if (const absl::Status status = children_.start_agent(node); !status.ok())
    return fail(kExitFailed, std::string(status.message()));
  write_processes();
}

void ProtectedRun::take_machines_away() {
  std::erase_if(taken_away_, [this](const auto& one) {
    if (clock_.now() < one.first) return false;
    if (children_.has_agent(one.second)) children_.kill_agent(one.second);
    return true;
  });
}

void ProtectedRun::look_after_agents() {
  for (const ControlChildren::LostAgent& agent : children_.bury_agents()) {
    // One that ends well may have heard of the end of the job before us.
    return_at_ = clock_.now() + (agent.is_ok ? kFarewellMax : absl::ZeroDuration());
    if (!end_ && !agent.is_ok) on_agent_lost(agent);
    write_processes();
  }
  const bool is_wanted = is_local() && !end_ && !failure_;
  if (children_.has_agents() || !is_wanted || clock_.now() < return_at_) return;
  story_.say("no node is left: node 0 starts again");
  start_agent(Node(0));
}

void ProtectedRun::on_agent_lost(const ControlChildren::LostAgent& agent) {
  story_.say(absl::StrCat("node ", agent.node.value, " is lost: its agent: ", agent.how));
  const auto& core = options_.controller.core;
  if (++agent_losses_ <= options_.control_losses_max + core.nodes + core.spares) return;
  fail(kExitFailed, absl::StrCat("agents end again and again; the last: ", agent.how));
}

}  // namespace

absl::StatusOr<RunOutcome> run_protected(Files& files, Clock& clock,
                                         const ProtectedRunOptions& options,
                                         RunObserver& observer) {
  RETURN_IF_ERROR(files.create_directories(join_path(options.out, "logs")));
  std::unique_ptr<SignalInbox> signals;
  if (options.orders == nullptr) {
    ASSIGN_OR_RETURN(signals, SignalInbox::open());
  }
  ASSIGN_OR_RETURN(const std::set<int> injected,
                   read_injected_faults(injected_faults_path(options.faults_path)));
  ASSIGN_OR_RETURN(ControlPlaces places, control_places(options));
  return ProtectedRun(files, clock, options, observer, signals.get(), injected, std::move(places))
      .run();
}

}  // namespace evermoe
