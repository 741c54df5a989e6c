// What a run tells while it goes on, and how it ended.
#pragma once

#include <string>
#include <vector>

#include "base/exit_codes.h"
#include "base/ids.h"
#include "control/controller/controller_interface.h"
#include "control/controller/failure_record.h"
#include "control/controller/moves/move_record.h"
#include "control/wire/worker_report.h"

namespace evermoe {

// kTakenOver: the job goes on under another host.
enum class RunStatus { kFinished, kDrained, kFailed, kNothingToDo, kTakenOver };
// "finished", "drained", "failed", "nothing to do", "taken over"
const char* to_string(RunStatus status);

// A role that computed slower than others.
struct StragglerRecord {
  std::string role;
  Node node;
  double factor = 1;  // how many times as long, when it was found
  Step step;          // then
  Step until{-1};     // the same when it was none any more; -1: its process ended before
};

// A link whose messages took longer than usual.
struct SlowLinkRecord {
  Node from, to;
  double factor = 1;  // how many times as long, when it was found
  Step step;          // then
  Step until{-1};     // the same when it was slow no more; -1: the run or a node ended before
};

struct RunOutcome {
  RunStatus status = RunStatus::kFailed;
  int exit_code = kExitFailed;
  std::string reason;
  Step steps;        // the newest committed one
  int restarts = 0;  // of the whole job
  std::vector<FailureRecord> failures;
  std::vector<LanesChanged> membership;  // who trained from which state on, oldest first
  std::vector<ExpertMove> moves;         // of experts, oldest first
  // Of roles, likewise, with moments since the run began; of former hosts of the job none.
  std::vector<MoveRecord> role_moves;
  std::vector<StragglerRecord> stragglers;  // likewise
  std::vector<SlowLinkRecord> slow_links;   // likewise
};

// Is told what happens, on the thread of the run, which does not go on before it returns.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_say(const std::string& line) = 0;
  virtual void on_report(const WorkerReport& report) = 0;
  // The last lines that a failed worker wrote.
  virtual void on_log(const std::string& role, const std::string& path,
                      const std::vector<std::string>& lines) = 0;
};

}  // namespace evermoe
