// What a member is told when it is made, whom it tells what happens, and what it counts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "comm/transport/sent_traffic.h"
#include "protection/schedule/copy_gate.h"
#include "protection/strategy/strategy.h"
#include "recovery/member/serve/link_probes.h"
#include "recovery/member/serve/snapshot_copies.h"
#include "recovery/plan/operator_ordering.h"
#include "recovery/protocol/findings.h"

namespace evermoe {

struct MemberOptions {
  Strategy strategy;
  // The same on all lanes of a stage.
  OrderingOptions ordering;
  // How many slots this rank would like, asked where a window ends; 0: it does not mind. The next
  // windows get the largest number that any rank wants.
  std::function<int(const OperatorOrdering&)> wanted_slots = [](const OperatorOrdering&) {
    return 0;
  };
  int64_t log_bytes_max = int64_t{1} << 30;
  int64_t snapshot_bytes_max = int64_t{1} << 30;
  SnapshotCopiesOptions copies;
  CopyGateOptions gate;  // of copies on their way to peers
  // For how long the trainer has waited for other lanes so far. Asked on the training thread.
  std::function<absl::Duration()> time_waited = [] { return absl::ZeroDuration(); };
  // What has been sent to others: by the member, and by a trainer whose transport counts here, too.
  std::shared_ptr<SentTraffic> sent = std::make_shared<SentTraffic>();
  ProbeOptions probes;
  // After how long without an answer to ask again.
  absl::Duration ask_again = absl::Seconds(1);
  // For so long nothing of a role that is handed over may arrive: then it stays.
  absl::Duration hand_over_silence_max = absl::Seconds(10);
  // How long to wait for a new view before giving up: others may recover meanwhile, and the
  // controller may be away for a while. A process whose agent has given up ends with it.
  absl::Duration patience = kCallMax;
  // Faults are being rehearsed: peers may ask to damage the copies that are held of them.
  bool is_rehearsal = false;
};

// What happened on this rank, for observers of the job. Called on the training thread; must not
// block.
struct MemberObserver {
  // The whole job goes on from the state at `step`, of the durable checkpoint `source` or from the
  // beginning.
  std::function<void(Step step, const std::string& source)> on_resumed = [](Step,
                                                                            const std::string&) {};
  std::function<void(const Record&, Step)> on_step = [](const Record&, Step) {};
  // The training thread computes from now on; or it does what others wait for: it restores.
  std::function<void(bool)> on_computing = [](bool) {};
  std::function<void(const Record&, Step)> on_evaluated = [](const Record&, Step) {};
  // Operators are captured in another order from the window on that begins with the state at
  // `step`.
  std::function<void(Step step, const std::string& why)> on_reordered = [](Step,
                                                                           const std::string&) {};
};

// Counts of work, for evidence: what a recovery made this rank do again.
struct MemberWork {
  int64_t steps_trained = 0;       // calls of StageTrainer::train()
  int64_t steps_recomputed = 0;    // of these: for commits that the job had made already
  int64_t evaluations = 0;         // batches of them
  int64_t restarts = 0;            // times that it went back
  int64_t copies_refused = 0;      // by a source whose copy was damaged or gone
  int64_t reorderings = 0;         // new capture orders
  int64_t reordered_restores = 0;  // of windows whose order what was counted had decided
};

// Threads: any.
class WorkCounts {
 public:
  void add_one(int64_t MemberWork::*count) {
    const MutexLock lock(mutex_);
    ++(work_.*count);
  }
  MemberWork work() const {
    const MutexLock lock(mutex_);
    return work_;
  }

 private:
  mutable Mutex mutex_;
  MemberWork work_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
