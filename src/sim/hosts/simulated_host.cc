#include "sim/hosts/simulated_host.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/folder/job_end.h"

namespace evermoe {
namespace {

// As in control_children.cc: so that what a former host's controllers have numbered is smaller.
constexpr int64_t kLivesOfHost = 1000;

}  // namespace

SimulatedHost::SimulatedHost(SimulatedNetwork& time, ControlNetwork& network,
                             const Topology& topology, SimulatedHostOptions options, Events events)
    : time_(time),
      network_(network),
      topology_(topology),
      options_(std::move(options)),
      events_(std::move(events)),
      run_(network.begin(options_.machine, *this)),
      life_(options_.term.hosts_before * kLivesOfHost - 1),
      lanes_(options_.lanes) {
  start_controller();
  network_.after(run_, absl::ZeroDuration(), [this] { look(); });
}

SimulatedHost::~SimulatedHost() { network_.end(run_); }

absl::Duration SimulatedHost::draw(absl::Duration max) {
  return absl::Microseconds(
      static_cast<int64_t>(time_.draw(static_cast<uint64_t>(absl::ToInt64Microseconds(max)) + 1)));
}

// ---- controllers

void SimulatedHost::start_controller() {
  heard_ = now();
  is_opening_ = true;
  const int64_t life = ++life_;
  ++controllers_;
  network_.after(run_, draw(options_.start_max), [this, life] {
    if (life != life_ || has_ended_) return;
    SimulatedController::Options own{options_.address, options_.core, options_.relay,
                                     options_.farewell_max, [this](const EndJob& end) {
                                       if (end.ok) events_.mark_end(end);
                                     }};
    own.core.takes_over = life > 0;
    own.relay.life = life;
    own.relay.term = options_.term;
    controller_ =
        std::make_unique<SimulatedController>(time_, network_, options_.machine, topology_, own,
                                              [this](const RelayAction& action) { watch(action); });
  });
}

void SimulatedHost::end_controller() {
  if (controller_ == nullptr) return;
  network_.end(controller_->process());
  ended_.push_back(std::move(controller_));
}

void SimulatedHost::replace_controller(const std::string& how) {
  if (controller_ == nullptr) return;
  end_controller();
  is_attached_ = false;
  network_.after(run_, draw(network_.options().notice_max), [this, how] {
    if (has_ended_) return;
    events_.tell(absl::StrCat("the controller is lost: ", how, "; the next one takes over"));
    start_controller();
  });
}

void SimulatedHost::kill_controller() {
  if (controller_ == nullptr) return;
  events_.mark(is_opening_ ? "controller killed while a view opened" : "controller killed");
  replace_controller("killed by signal 9 (Killed)");
}

void SimulatedHost::stop_controller(absl::Duration time) {
  if (controller_ == nullptr || controller_->is_stopped()) return;
  controller_->stop();
  time_.after(time, [this, stopped = controller_.get()] {
    if (controller_.get() != stopped) return;
    events_.mark("controller stopped and back");
    controller_->go_on();
  });
}

// ---- the run, as in protected_run.cc

void SimulatedHost::stop(bool all) {
  network_.stop(run_);
  if (all && controller_ != nullptr) controller_->stop();
}

void SimulatedHost::go_on() {
  if (controller_ != nullptr) controller_->go_on();
  network_.go_on(run_);
}

void SimulatedHost::look_away(absl::Duration time) {
  term_check_at_ = looks_away_until_ = now() + time;
}

void SimulatedHost::leave(const std::string& why) {
  if (std::exchange(has_left_, true)) return;
  events_.tell(absl::StrCat("the host of term ", options_.term.number, " leaves the job: ", why));
  end_controller();
  network_.end(run_);
  events_.on_left();
}

void SimulatedHost::look() {
  ended_.clear();
  look_after_controller();
  look_after_call();
  look_after_term();
  if (!has_left_) network_.after(run_, options_.relay.beat / 2, [this] { look(); });
}

void SimulatedHost::look_after_controller() {
  if (controller_ == nullptr) return;
  if (controller_->is_over()) {
    end_controller();
    if (has_ended_) return;
    if (const auto how = events_.own_end()) {
      events_.mark("end of the job not heard by its host");
      return end_as(end_that(*how));
    }
    start_controller();
    return;
  }
  const absl::Duration patience = is_attached_ ? options_.silence_max : 12 * options_.silence_max;
  if (now() < heard_ + patience) return;
  events_.mark("controller hung");
  replace_controller(absl::StrCat("hung: no sign of life for ", absl::FormatDuration(patience)));
}

void SimulatedHost::look_after_call() {
  if (has_ended_) {
    if (call_.value > 0) network_.close(run_, std::exchange(call_, StreamNumber(0)));
    return;
  }
  if (call_.value == 0 && now() >= retry_at_) {
    call_ = network_.call(run_, options_.address);
    network_.send(run_, call_, {0, RunHello{}});
  }
  if (!is_attached_ || now() < next_beat_) return;
  next_beat_ = now() + options_.relay.beat;
  network_.send(run_, call_, {0, Beat{}});
}

void SimulatedHost::look_after_term() {
  if (has_ended_ || has_left_ || now() < term_check_at_) return;
  term_check_at_ = now() + options_.term_check;
  const absl::Status term = events_.check_term();
  if (const auto how = events_.end_by_former(); term.ok() && how) {
    events_.mark("ended under the host before");
    end_controller();
    return end_as(end_that(*how));
  }
  if (term.ok() && term_asked_ && is_attached_)
    network_.send(run_, call_, {0, TermHeld{std::exchange(term_asked_, std::nullopt)->losses}});
  if (!is_replaced(term)) return;
  events_.mark("old host fenced");
  if (term_asked_) events_.mark("old host fenced when it had lost others");
  leave(std::string(term.message()));
}

void SimulatedHost::on_envelope(StreamNumber stream, Envelope envelope) noexcept {
  if (stream != call_) return;
  heard_ = now();
  std::visit([this](const auto& message) { hear(message); }, envelope.message);
}

void SimulatedHost::on_broken(StreamNumber stream, const std::string&) noexcept {
  if (stream != call_) return;
  call_ = StreamNumber(0);
  is_attached_ = false;
  heard_ = now();  // from now on it is given the time to come up
  retry_at_ = now() + options_.retry;
}

// Another host's controller, where ours was, is nothing to this run.
void SimulatedHost::hear(const Welcome& welcome) {
  term_asked_.reset();
  if (welcome.term != options_.term) {
    term_check_at_ = now();
    network_.close(run_, std::exchange(call_, StreamNumber(0)));
    retry_at_ = now() + options_.retry;
    return;
  }
  is_attached_ = true;
  met_ = welcome.life;
}

// Of a job that another host has by now it is no end, unless all processes had ended well.
void SimulatedHost::hear(const EndJob& end) {
  if (has_ended_) return;
  const absl::Status term = events_.check_term();
  if (is_replaced(term)) {
    events_.mark("end told by an old host");
    if (end.ok) events_.mark_end(end);
    return leave(std::string(term.message()));
  }
  end_as(end);
}

void SimulatedHost::end_as(const EndJob& end) {
  has_ended_ = true;
  is_attached_ = false;
  events_.mark_end(end);
  events_.on_end(end);
}

std::vector<RecoveryRecord> SimulatedHost::recoveries() const {
  std::vector<RecoveryRecord> records;
  for (const auto& [number, record] : notes_) records.push_back(record);
  return records;
}

std::vector<MoveRecord> SimulatedHost::moves() const {
  std::vector<MoveRecord> records;
  for (const auto& [number, record] : moves_) records.push_back(record);
  return records;
}

void SimulatedHost::want(const MoveWanted& wish) {
  if (is_attached_) network_.send(run_, call_, {0, wish});
}

void SimulatedHost::drain() {
  if (is_attached_) network_.send(run_, call_, {0, Drain{}});
}

void SimulatedHost::hear(const LanesChanged& change) {
  if (lanes_.on_change(change)) events_.hand_on(lanes_.changes());
}

void SimulatedHost::hear(const WorkerReport& report) {
  if (report.kind == WorkerReport::Kind::kReady &&
      lanes_.on_resumed(report.step, report.trained_on))
    events_.hand_on(lanes_.changes());
}

void SimulatedHost::hear(const ConfirmTerm& question) {
  term_asked_ = question;
  term_check_at_ = std::max(now(), looks_away_until_);
}

void SimulatedHost::hear(const MoveAnswer& answer) {
  if (!answer.accepted) events_.tell(absl::StrCat("the wish is refused: ", answer.reason));
}

// ---- rare paths

void SimulatedHost::watch(const RelayAction& action) {
  if (const auto* const send = std::get_if<SendEnvelope>(&action)) {
    if (const auto* const kill = std::get_if<KillWorker>(&send->envelope.message)) {
      if (kill->why == "another process plays its role")
        events_.mark("former process of a role told to end");
    }
    if (const auto* const order = std::get_if<SendOrder>(&send->envelope.message)) {
      is_opening_ = std::holds_alternative<StopOrder>(order->message);
    }
    if (std::holds_alternative<PlanUpdate>(send->envelope.message)) is_opening_ = false;
    if (const auto* const start = std::get_if<StartWorker>(&send->envelope.message)) {
      if (start->node.value >= options_.core.nodes) events_.mark("spare takes over");
    }
  }
  if (const auto* const line = std::get_if<LogLine>(&action)) watch_line(line->text);
}

void SimulatedHost::watch_line(const std::string& line) {
  static constexpr std::pair<const char*, const char*> kMarks[] = {
      {"it attaches anew", "agent attaches before its old line breaks"},
      {"is back on a new line", "agent back on a new line"},
      {" moves to node ", "role moved away from where it kept dying"},
      {"is lost: no sign of life", "agent lost for its silence"},
      {"not fit to play a role: network: ", "machine left out for its network"},
      {" is fit again", "machine fit again"},
      {" do not reach each other: ", "two machines do not reach each other"},
      {"the connection broke", "agent lost with its line"},
      {"gone when the new controller came", "not adopted"}};
  for (const auto& [words, mark] : kMarks) {
    if (absl::StrContains(line, words)) events_.mark(mark);
  }
  if (life_ > 0 && absl::StrContains(line, "the job begins"))
    events_.mark("begun anew by a later controller");
}

}  // namespace evermoe
