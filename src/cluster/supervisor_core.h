// What the supervisor of a job decides: events in, actions out. Does no I/O and reads no clock; the
// same events at the same times always give the same actions, and every decision says why.
//
//   waiting --(time)--> running --(all ended well)----------------------------> over
//      ^                   | a worker failed or hung: kill all at once            ^
//      |                   v                                                      |
//      +--(all ended)-- stopping --(all ended; too many restarts, bad input, quit)+
//
// Rules:
// * A worker that dies, hangs or fails stops all others at once; everybody starts again from the
//   newest good checkpoint, which the workers find themselves. cluster/blame.h says who was it.
// * Too many restarts in a row without progress give the run up. Progress is a new checkpoint or a
//   step that was never committed before.
// * Input that is wrong ends the run without a restart.
// * The first signal asks the workers to finish their step, save and end; the second kills them.
//   Before all workers are ready there is nothing to save, and the first one kills them too.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "base/ids.h"
#include "cluster/blame.h"
#include "cluster/failure_record.h"
#include "cluster/step_pace.h"
#include "cluster/worker_report.h"
#include "env/process.h"

namespace evermoe {

struct SupervisorCoreOptions {
  BlameOptions blame;
  Step steps;             // the state that the job is to reach
  Step start;             // the newest checkpoint when the run begins, 0 without one
  int64_t evaluate_every_steps = 0;    // after such steps a pause is no standstill
  int64_t checkpoint_every_steps = 0;
  int64_t restarts_max = 3;            // in a row, without progress
  absl::Duration backoff = absl::Milliseconds(200);  // before the first restart, doubled each time
  absl::Duration backoff_max = absl::Seconds(30);
  // A step that takes longer, and longer than 20 median steps, is a standstill. Workers wait as long
  // for each other, so `standstill_margin` lets them speak first: they know whom they waited for.
  absl::Duration step_deadline = absl::Seconds(60);
  absl::Duration standstill_margin = absl::Seconds(5);
  // So many step deadlines for what is not a step: start, load, evaluation, save, drain.
  int patience = 10;
  // How long uncertain evidence may be overtaken by better evidence.
  absl::Duration grace = absl::Milliseconds(200);
  // A process that SIGKILL does not end for so long is stuck in the kernel.
  absl::Duration kill_timeout = absl::Seconds(10);
  // When events are further apart, it was the supervisor that stood still, not the workers. REQUIRES:
  // the shell sends a Tick more often.
  absl::Duration own_standstill = absl::Seconds(2);
};

struct WorkerReported { WorkerReport report; };
struct WorkerUnreadable { Rank rank; std::string reason; };
struct WorkerNotStarted { Rank rank; std::string reason; };
struct WorkerExited { Rank rank; ExitStatus exit; std::string last_words; };
struct SignalReceived { int signal = 0; };
struct Tick {};  // after every batch of the others, and at next_deadline()
using SupervisorEvent = std::variant<WorkerReported, WorkerUnreadable, WorkerNotStarted, WorkerExited,
                                     SignalReceived, Tick>;

enum class RunStatus { kFinished, kDrained, kFailed, kNothingToDo };
const char* to_string(RunStatus status);  // "finished", "drained", "failed", "nothing to do"

struct StartAll { int attempt = 0; };
struct SignalAll { int signal = 0; };
struct KillAll {};
struct ShowLog { Rank rank; };  // the last lines that this worker wrote
struct Say { std::string line; };
struct Finish { RunStatus status; int exit_code = 0; std::string reason; };  // always the last action
using SupervisorAction = std::variant<StartAll, SignalAll, KillAll, ShowLog, Say, Finish>;

class SupervisorCore {
 public:
  explicit SupervisorCore(SupervisorCoreOptions options);

  // Advances by one event. Times never go back. The first Tick starts the workers.
  // REQUIRES: no Finish has been returned.
  std::vector<SupervisorAction> step(absl::Duration now, const SupervisorEvent& event);

  // When the next Tick is due if nothing else happens.
  absl::Duration next_deadline() const;

  const std::vector<FailureRecord>& failures() const { return failures_; }
  int restarts() const { return restarts_; }
  // The newest step that was committed, or is in a checkpoint.
  Step newest_step() const { return newest_; }

 private:
  enum class Phase { kWaiting, kRunning, kStopping, kOver };

  void on(const WorkerReported& event);
  void on(const WorkerUnreadable& event);
  void on(const WorkerNotStarted& event);
  void on(const WorkerExited& event);
  void on(const SignalReceived& event);
  void on(const Tick& event);

  void on_ready();
  void on_step(Step step);
  void on_published(Step step);
  void caught_up_with(Step step);

  void start_all();
  void judge();
  void fail(const Cause& cause);
  void record(const Cause& cause);
  void decide_what_follows(const Cause& cause);
  void kill_all();
  void all_ended();
  void finish(Finish finish);
  void all_stopped();

  void forgive_own_standstill(absl::Duration gap);
  absl::Duration standstill_at() const;
  Cause standstill() const;
  bool does_more_than_steps() const;
  bool nobody_runs() const;
  bool all_ready() const;
  WorkerState& worker(Rank rank) { return workers_[static_cast<size_t>(rank.value)]; }
  std::string name(Rank rank) const { return options_.blame.role_names[static_cast<size_t>(rank.value)]; }
  std::string names(const std::vector<Rank>& ranks) const;
  void say(std::string line) { actions_.emplace_back(Say{std::move(line)}); }
  void note(FailureRecord& failure, const std::string& what);

  const SupervisorCoreOptions options_;
  Phase phase_ = Phase::kWaiting;
  std::vector<WorkerState> workers_;  // by rank, of the present attempt
  std::vector<SupervisorAction> actions_;  // of the event at hand

  absl::Duration now_ = -absl::InfiniteDuration();
  std::optional<absl::Duration> began_;
  absl::Duration start_at_ = -absl::InfiniteDuration();  // kWaiting
  absl::Duration stop_deadline_ = absl::InfiniteDuration();  // kStopping
  std::optional<absl::Duration> suspected_at_;  // when uncertain evidence was first seen
  std::optional<Finish> verdict_;  // kStopping: what comes after; nullopt for a restart

  absl::Duration moved_at_ = absl::ZeroDuration();  // the last sign that the job moves on
  StepPace pace_;
  Step attempt_step_ = Step(-1);  // newest committed one of the present attempt
  Step ready_step_ = Step(-1);    // where the present attempt began
  Step evaluated_ = Step(-1);
  Step newest_;
  Step published_;

  int attempt_ = 0;
  int restarts_ = 0;
  int64_t restarts_in_row_ = 0;
  int signals_ = 0;
  bool draining_ = false;
  std::vector<FailureRecord> failures_;
  // By failure: when its `step` was committed; nullopt once the run has caught up with it.
  std::vector<std::optional<absl::Duration>> lost_since_;
};

}  // namespace evermoe
