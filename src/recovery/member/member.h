// One process of a protected job: plays a rank, survives the failures of others, and can take the
// place of a rank that was lost.
//
// Two threads run it. The training thread runs the rank's program (rank_program.h), which steps the
// trainer and commits; the service thread answers the messages of other members, takes snapshots
// and keeps copies, and follows the controller's orders (member_service.h). All they wait for comes
// through the transport.
//
//   Member member(...);
//   thread: member.serve();    // until released, or the process has to end
//   member.train();            // likewise
//
// A member decides nothing itself: it owns the parts and connects them. What both threads use has a
// mutex of its own: the views, the memory for recoveries, copies, orders, troubles, counts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comm/transport/signal.h"
#include "comm/transport/watched_transport.h"
#include "env/clock.h"
#include "parallel/topology.h"
#include "recovery/member/member_options.h"
#include "recovery/member/serve/link_probes.h"
#include "recovery/member/serve/member_service.h"
#include "recovery/member/serve/own_memory.h"
#include "recovery/member/train/rank_program.h"
#include "recovery/member/train/step_timer.h"
#include "recovery/plan/protection_state.h"

namespace evermoe {

class Member {
 public:
  // All arguments outlive the member.
  Member(const Topology& topology, Transport& transport, StageTrainer& trainer,
         ControlLink& control, Clock& clock, MemberOptions options, MemberObserver observer = {});

  // The training thread. Ok when the job is over; an error if this process has to end.
  absl::Status train();
  // The service thread, likewise.
  absl::Status serve();

  // What this process was given before it took the role (joiner.h). Before its threads run.
  void inherit(std::vector<Chunk> chunks);
  // Restorer::restore_ahead(). On the thread that will train.
  absl::Status restore_ahead(const std::vector<Chunk>& whole) {
    return restorer_.restore_ahead(whole);
  }

  // From the controller. Any thread. enqueue() leaves it to the caller to wake the service thread,
  // by a message to this process of the kind kWake.
  void receive(ControllerMessage message);
  void enqueue(ControllerMessage message) { orders_.push(std::move(message)); }
  // A fault for tests: damages the copies held here of `owner`. Any thread.
  int corrupt_copies(Rank owner) { return memory_.store.corrupt(owner); }
  // The same for the copies that others hold of this rank. Any thread.
  void corrupt_copies_at_holders();
  // A bit of the first operator that is up to date. Training thread.
  void corrupt_state() { restorer_.corrupt_state(); }
  // The incident that this member knows to be under way (Plan::incident); 0: none. Any thread.
  int64_t incident_under_way() const { return follower_.incident_under_way(); }

  // What a member says to a new controller.
  const MemberViews& views() const { return views_; }
  // Of the run that it is in, if it has come into it.
  Commit newest_commit() const {
    return views_.is_resuming() ? Commit(-1) : memory_.records.newest();
  }
  // The view in which that run began (RunOrigin); 0: it has computed nothing of one yet.
  View run() const;
  // After it has registered with a new controller: the former one may have died with the news.
  void repeat_trouble() { troubles_.repeat(); }

  // Of the Contradiction with which train() or serve() has ended.
  const Witnesses& witnesses() const { return witnesses_; }

  MemberWork work() const { return counts_.work(); }
  // The training thread waits for a verdict or another stage. Any thread.
  bool waits_for_world() const { return world_transport_.is_waited_in(); }
  // How long this rank computed in each step since the last call. Any thread.
  std::vector<StepTime> take_step_times() { return timer_.take(); }
  // How long messages from this rank to others take, measured since the last call. Any thread.
  std::vector<LinkTime> take_link_times() { return probes_.take(); }
  // Of the state after the step whose record this is. Training thread.
  ProtectionState protection_state(const Record& record) const;
  int64_t log_bytes_peak() const { return memory_.log.bytes_peak(); }
  size_t records_kept() const { return memory_.records.size(); }
  int64_t snapshot_bytes_peak() const { return memory_.store.bytes_peak(); }
  // Processor time of the service thread so far: what copying costs. Any thread.
  absl::Duration service_time() const { return service_.time(); }
  int64_t captured_bytes() const { return copies_.captured_bytes(); }
  double seconds_waited_for_reads() const { return copies_.seconds_waited_for_reads(); }
  double seconds_waited_for_copies() const { return copies_.seconds_waited_for_copies(); }

 private:
  BoundaryExchange::Dependencies exchange_parts(StageTrainer& trainer);
  JoinerMemory::Dependencies joiner_parts(Clock& clock);
  HandOver::Dependencies hand_over_parts(StageTrainer& trainer);
  SnapshotCopies::Dependencies copies_parts(StageTrainer& trainer, Clock& clock);
  CommitAgreement::Dependencies commit_parts();
  GradientRestorer::Dependencies gradient_parts(StageTrainer& trainer);
  Restorer::Dependencies restorer_parts(StageTrainer& trainer);
  RankProgram::Dependencies program_parts(StageTrainer& trainer);
  OrderFollower::Dependencies follower_parts(const Topology& topology, Clock& clock);
  void send_probe(Rank to, MessageKind kind, MessageBytes bytes);
  absl::Status settle();
  absl::Duration time_waited() const;
  WindowVote vote(bool ends_window) const;
  void on_agreed(View view, Commit commit, const Record& record);
  void tell_connections(View view);

  const Topology& topology_;
  Transport& transport_;
  // Of the training thread, verdicts and boundaries; and what the service thread sends.
  WatchedTransport world_transport_;
  StageTrainer& trainer_;
  ControlLink& control_;
  const MemberOptions options_;
  const MemberObserver observer_;
  const Rank rank_;

  // Both threads:
  Signal wake_training_;
  MessageSender sender_;
  MessageSender probe_sender_;  // what it sends is no traffic, and what it meets is no trouble
  MemberViews views_;
  TroubleReporter troubles_;
  WorkCounts counts_;
  OrderQueue orders_;
  RoleLeave leave_;
  RefusedSlots refused_;
  RecoveryMemory memory_;
  Witnesses witnesses_;
  // Training thread:
  View committed_in_;             // the newest commit
  int64_t connections_then_ = 0;  // that this process had made
  WindowState window_;
  // Both:
  BoundaryExchange exchange_;
  OwnMemory own_memory_;
  PeerMemory peer_memory_;
  JoinerMemory joiner_memory_;
  SnapshotCopies copies_;
  // Training thread:
  StepTimer timer_;
  CommitAgreement commits_;
  HandOver hand_over_;
  WindowFetch fetch_;
  GradientRestorer gradients_;
  Restorer restorer_;
  RankProgram program_;
  // Service thread:
  MessageAnswers answers_;
  OrderFollower follower_;
  LinkProbes probes_;
  MemberService service_;
};

}  // namespace evermoe
