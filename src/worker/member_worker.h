// A worker: a member that an agent has started (recovery/member/member.h), and everything that it
// consists of.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "checkpoint/write/folder_term.h"
#include "checkpoint/write/publisher_claim.h"
#include "comm/transport/watched_transport.h"
#include "config/job_config.h"
#include "control/wire/control_client.h"
#include "control/wire/incident_lines.h"
#include "data/token_source.h"
#include "protection/snapshots/chunk.h"
#include "recovery/member/member.h"
#include "recovery/plan/window_choice.h"
#include "train/step/trainer.h"
#include "worker/fault_injector.h"
#include "worker/worker.h"
#include "worker/worker_device.h"
#include "worker/worker_reporter.h"
#include "worker/worker_seat.h"

namespace evermoe {

// How a worker comes to its role: it is told when it is started, or it prepares for one that it may
// get, and is told then.
class MemberWorker {
 public:
  // `drain_requested` is asked once a step. The others outlive it.
  MemberWorker(WorkerOptions options, const JobConfig& config, const TokenParts& tokens,
               ControlClient& client, std::function<bool()> drain_requested);

  // All that there is before the role is known to be its own: its model, and a seat unless it is
  // given one. Of the options it needs the rank and the view.
  absl::Status prepare(std::shared_ptr<const WorkerDevice> device,
                       std::shared_ptr<WorkerSeat> seat = nullptr);
  bool is_for(Rank rank, View since) const {
    return rank == options_.rank && since == options_.since;
  }
  // Restorer::restore_ahead(). REQUIRES: prepare() was ok, and it has not run yet.
  absl::Status restore_ahead(const std::vector<Chunk>& whole) {
    return member_->restore_ahead(whole);
  }
  // REQUIRES: is_for() the same, and it has not run yet.
  void take_role(const WorkerOptions& options) { options_ = options; }

  // Until the job is over, another process has the role, or this one has to end. `inherited`: what
  // it was given for this role (joiner_process.h). REQUIRES: prepare() was ok.
  absl::Status run(std::vector<Chunk> inherited);
  // run() has returned because another process has the role: it becomes a standby, and this is told
  // of that.
  const std::optional<BecomeStandby>& relieved() const { return relieved_; }

 private:
  TrainerEnvironment environment(const std::shared_ptr<SentTraffic>& sent);
  absl::Status create_member(const std::shared_ptr<SentTraffic>& sent);
  absl::Status begin(std::vector<Chunk> inherited);
  ControlHandlers handlers();
  absl::Status with_witnesses(const absl::Status& contradiction) const;
  absl::Status arm_faults();
  MemberJoined describe() const;
  MemberObserver observer();
  void on_step(const Record& record);
  void receive(ControllerMessage order);
  void tell_published();
  FolderTerm term();
  void note_term(const FolderTerm& term);

  WorkerOptions options_;
  const JobConfig& config_;
  const TokenParts& tokens_;
  const Topology topology_;
  ControlClient& client_;
  const std::function<bool()> drain_requested_;
  Mutex term_mutex_;
  FolderTerm term_ ABSL_GUARDED_BY(term_mutex_);  // the newest that it was told of
  std::optional<PublisherClaim> publisher_claim_;
  IncidentLines incident_lines_;  // of the thread that brings orders
  std::optional<WorkerReporter> worker_reporter_;
  std::shared_ptr<const WorkerDevice> device_;
  std::shared_ptr<WorkerSeat> seat_;
  std::unique_ptr<WatchedTransport> stage_transport_;  // the trainer's
  std::unique_ptr<Trainer> trainer_;
  bool keeps_copies_ = false;
  std::optional<WindowChooser> chooser_;  // windows are chosen, not configured
  std::unique_ptr<Member> member_;
  std::optional<BecomeStandby> relieved_;  // of the thread that brings orders, until run() is over
  std::unique_ptr<FaultInjector> injector_;
  absl::Duration step_began_;
  Step published_{-1};
};

}  // namespace evermoe
