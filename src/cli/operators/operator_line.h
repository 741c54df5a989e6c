// An operator's line to the controller of a job (`evermoe status`, move, drain, stop).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "control/keys/job_keys.h"
#include "control/wire/control_call.h"
#include "control/wire/mailbox.h"
#include "env/clock.h"

namespace evermoe {

struct OperatorTarget {
  std::string address;                  // of the controller
  std::shared_ptr<const JobKeys> keys;  // null: the address is of this machine
};

// `where`: the output folder of a running job, whose controller.json names the address, or
// HOST:PORT.
// `keys`: the folder as given; empty: OUT/keys, if there is such a folder. InvalidInput if no job
// runs there, or the keys are missing or unfit.
absl::StatusOr<OperatorTarget> find_job(const std::string& where, const std::string& keys);

// Adds JOB and --keys, for find_job(). The two outlive the command.
void add_job_options(CLI::App& command, std::string& where, std::string& keys);

class OperatorLine final : private StreamEvents {
 public:
  // How long a controller may take to answer, one that is being replaced included.
  static constexpr absl::Duration kAnswerMax = absl::Seconds(5);

  // `clock` outlives it.
  OperatorLine(OperatorTarget target, Clock& clock);
  ~OperatorLine() override { call_.reset(); }

  struct Answer {
    std::optional<JobStatus> status;
    std::optional<EndJob> end;  // the job has ended
    std::optional<MoveAnswer> move;
  };
  // Asks how the job is, on a new call where the former one broke. Timeout: nobody answers.
  absl::StatusOr<Answer> ask();
  // Asks for a move, after ask(). Timeout if the call breaks first: it may have been heard or not.
  absl::StatusOr<Answer> ask_for(const MoveWanted& wish);
  // For so long, or until the job ends: the next answer says so.
  void wait(absl::Duration time);
  // After an answer. What was sent on a call that breaks before the next answer may be lost.
  void send(ControlMessage message) {
    if (call_ != nullptr) call_->send({0, std::move(message)});
  }

 private:
  static constexpr size_t kArrivedMax = 1 << 16;
  struct Arrived {
    StreamNumber stream;
    std::optional<Envelope> envelope;  // nullopt: broken
    std::string why;
  };
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override {
    arrived_.put({stream, std::move(envelope), ""});
  }
  void on_broken(StreamNumber stream, const std::string& why) noexcept override {
    arrived_.put({stream, std::nullopt, why});
  }
  void hello();
  void poll_for(absl::Duration time);
  void take();

  const OperatorTarget target_;
  Clock& clock_;
  Mailbox<Arrived> arrived_;
  int64_t calls_ = 0;
  std::string broken_;  // why the last call broke; empty: it has not
  Answer answer_;       // that nobody has been given yet
  std::unique_ptr<ControlCall> call_;
};

}  // namespace evermoe
