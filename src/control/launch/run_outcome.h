// What a run tells while it goes on, and how it ended.
#pragma once

#include <string>
#include <vector>

#include "base/exit_codes.h"
#include "base/ids.h"
#include "control/controller/controller_interface.h"
#include "control/controller/failure_record.h"
#include "control/controller/moves/move_record.h"
#include "control/controller/stragglers/slowness_records.h"
#include "control/wire/worker_report.h"

namespace evermoe {

// kTakenOver: the job goes on under another host.
enum class RunStatus { kFinished, kDrained, kFailed, kNothingToDo, kTakenOver };
// "finished", "drained", "failed", "nothing to do", "taken over"
const char* to_string(RunStatus status);

struct RunOutcome {
  RunStatus status = RunStatus::kFailed;
  int exit_code = kExitFailed;
  std::string reason;
  Step steps;        // the newest committed one
  int restarts = 0;  // of the whole job
  std::vector<FailureRecord> failures;
  std::vector<LanesChanged> membership;  // who trained from which state on, oldest first
  std::vector<ExpertMove> moves;         // of experts, oldest first
  // Of roles, likewise, with moments since the run of its host began.
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
