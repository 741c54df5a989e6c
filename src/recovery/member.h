// One process of a protected job: plays a rank, survives the failures of others, and can take the place
// of a rank that was lost.
//
// Two threads run it. The training thread steps the trainer and commits; the service thread answers the
// letters of other members, takes snapshots and keeps copies, and follows the controller's orders. All
// they wait for comes through the transport.
//
//   Member member(...);
//   thread: member.serve();    // until released, or the process has to end
//   member.train();            // likewise
//
// A process that was just started and one whose stage lost a rank do the same thing: begin by the plan
// of the view, from a window of snapshots, and run the program from there; commits that the job has made
// already are answered from the records.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comm/communicator.h"
#include "comm/signal.h"
#include "env/clock.h"
#include "placement/topology.h"
#include "recovery/boundary_exchange.h"
#include "recovery/messages.h"
#include "recovery/operator_ordering.h"
#include "recovery/post.h"
#include "recovery/protection_state.h"
#include "recovery/snapshot_copies.h"
#include "recovery/stage_trainer.h"
#include "recovery/view_gate.h"
#include "upstream/record_log.h"

namespace evermoe {

struct MemberOptions {
  bool is_protected = true;
  // Slots of a window when the run begins, and steps from one window to the next (0: back to back). Ranks
  // agree on the fewest.
  int slots = 1;
  int period = 0;
  // The most slots that this rank has memory for; no window gets more than any rank has.
  int slots_max = 1 << 20;
  // The same on all lanes of a stage.
  OrderingOptions ordering;
  // How many slots this rank would like, asked where a window ends; 0: it does not mind. The next windows
  // get the largest number that any rank wants.
  std::function<int(const OperatorOrdering&)> wanted_slots = [](const OperatorOrdering&) { return 0; };
  int64_t log_bytes_max = int64_t{1} << 30;
  int64_t snapshot_bytes_max = int64_t{1} << 30;
  SnapshotCopiesOptions copies;
  // How long a single message may take before its sender is accused.
  absl::Duration deadline = absl::Seconds(60);
  // After how long without an answer to ask again.
  absl::Duration ask_again = absl::Seconds(1);
  // How long to wait for a new view before giving up: the controller may be away for a while.
  absl::Duration patience = absl::Minutes(10);
  // Disasters are being rehearsed: peers may ask to damage the copies that are held of them.
  bool is_rehearsal = false;
};

// What happened on this rank, for observers of the job. Called on the training thread; must not block.
struct MemberObserver {
  // The whole job goes on from the state at `step`, of the durable checkpoint `source` or from the beginning.
  std::function<void(Step step, const std::string& source)> on_resumed = [](Step, const std::string&) {};
  std::function<void(const Record&, Step)> on_step = [](const Record&, Step) {};
  std::function<void(const Record&, Step)> on_evaluated = [](const Record&, Step) {};
  // Operators are captured in another order from the window on that begins with the state at `step`.
  std::function<void(Step step, const std::string& why)> on_reordered = [](Step, const std::string&) {};
};

// Counts of work, for evidence: what a recovery made this rank do again.
struct MemberWork {
  int64_t steps_trained = 0;     // calls of StageTrainer::train()
  int64_t steps_recomputed = 0;  // of these: for commits that the job had made already
  int64_t evaluations = 0;
  int64_t restarts = 0;          // times that it went back
  int64_t copies_refused = 0;    // by a source whose copy was damaged or gone
  int64_t reorderings = 0;       // new capture orders
  int64_t reordered_restores = 0;  // of windows whose order what was counted had decided
};

class Member {
 public:
  // All arguments outlive the member.
  Member(const Topology& topology, Transport& transport, StageTrainer& trainer, ControlLink& control, Clock& clock,
         MemberOptions options, MemberObserver observer = {});
  ~Member();

  // The training thread. Ok when the job is over; an error if this process has to end.
  absl::Status train();
  // The service thread, likewise.
  absl::Status serve();

  // From the controller. Any thread. enqueue() leaves it to the caller to wake the service thread, by a
  // letter to this process of the kind kWake.
  void receive(ControllerMessage message);
  void enqueue(ControllerMessage message);
  // Disaster for tests: damages the copies held here of `owner`. Any thread.
  int corrupt_copies(Rank owner) { return store_.corrupt(owner); }
  // The same for the copies that others hold of this rank. Any thread.
  void spoil_copies();
  // The recovery that this member knows to be under way (Plan::recovery); 0: none. Any thread.
  int recovery_under_way() const { return recovery_; }

  // What a member says to a new controller.
  const ViewGate& gate() const { return gate_; }
  Commit newest_commit() const { return records_.newest(); }
  // After it has registered with a new controller: the former one may have died with the news.
  void repeat_trouble();

  MemberWork work() const;
  // Of the state after the step whose record this is. Training thread.
  ProtectionState protection_state(const Record& record) const;
  int64_t log_bytes_peak() const { return log_.bytes_peak(); }
  int64_t snapshot_bytes_peak() const { return store_.bytes_peak(); }
  // Processor time of the service thread so far: what copying costs. Any thread.
  absl::Duration service_time() const { return absl::Nanoseconds(service_nanoseconds_.load()); }
  int64_t captured_bytes() const { return copies_.captured_bytes(); }
  double seconds_waited_for_reads() const { return copies_.seconds_waited_for_reads(); }
  double seconds_waited_for_copies() const { return copies_.seconds_waited_for_copies(); }

 private:
  using PlanPointer = std::shared_ptr<const Plan>;
  // A catch-up under way: which window is being restored, slot after slot.
  struct Conversion {
    Step window;
    int next_slot = 0;
  };
  // Fingerprints of the state that a survivor had before it went back.
  struct Aside {
    Step step{-1};
    std::vector<std::pair<Fingerprint, Fingerprint>> operators;  // full, compute-only
  };

  // ---- member_training.cc
  absl::Status begin(const Plan& plan);
  absl::Status resume(const Plan& plan);
  absl::Status play();
  absl::Status arrive();  // at a state: restore, verify, capture, evaluate, save
  absl::Status train_step();
  absl::Status run_evaluation(Step step);
  absl::Status run_closing();
  absl::StatusOr<WindowRule> first_rule(Step base);
  absl::StatusOr<Record> agree(Commit commit, const Findings& own);
  absl::Status agree_in_view(const Plan& plan, Findings& findings);
  absl::StatusOr<Record> record_of(Commit commit) const;
  void free_what_is_old(const Record& record);
  // What is captured from here on: by this rule, in the order at hand.
  void follow_rule(const WindowRule& rule);
  // The same at the state where the job began: nothing has been counted.
  void begin_order(const WindowRule& rule);
  void begin_window(Step step);
  // What the first piece of every slot holds: the trainer's position and the capture order.
  RecordBytes position() const;
  // Takes it up, or finds that it is where this rank is (Contradiction if not).
  absl::Status take_position(std::span<const std::byte> position);
  absl::Status compare_position(std::span<const std::byte> position) const;
  bool is_catching_up() const;
  void fail_inside_stage(const absl::Status& status);

  // ---- member_restore.cc
  absl::Status roll_back(const Plan& plan);
  void set_aside();
  absl::Status fetch_records(Commit first, Commit last);
  absl::StatusOr<std::vector<std::string>> fetch_window(Step window);
  absl::Status check_own_window(Step window);
  absl::Status restore_slot();
  absl::Status compare_with_aside();
  std::pair<Fingerprint, Fingerprint> fingerprints_of(int operator_index) const;

  // ---- member_service.cc
  absl::Status serve_until_ended();
  void follow_orders();
  void stop_for(const StopOrder& order);
  void open(PlanPointer plan);
  bool connect(const Plan& plan);
  Report report(View view) const;
  void handle(Letter letter);
  void handle_in_view(Letter& letter, View view);
  absl::Status on_letter(LetterKind kind, Letter& letter, View view);
  absl::Status on_piece(Letter& letter, View view);
  absl::Status on_want_slot(const Letter& letter, View view);
  absl::Status on_audit(const Letter& letter) const;
  void report_trouble(View view, const absl::Status& status, bool inside_stage, bool copies_unusable = false);

  const Topology& topology_;
  Transport& transport_;
  StageTrainer& trainer_;
  ControlLink& control_;
  Clock& clock_;
  const MemberOptions options_;
  const MemberObserver observer_;
  const Rank rank_;
  const int stage_;

  Signal wake_training_;
  Post post_;
  ViewGate gate_;
  BoundaryLog log_;
  ReceivedBoundaries received_;
  RecordLog records_;
  SnapshotStore store_;
  OperatorOrdering ordering_;
  CaptureSchedule schedule_;
  BoundaryExchange exchange_;
  SnapshotCopies copies_;

  // Training thread only:
  Communicator world_;
  ActiveOperators active_;
  std::optional<Conversion> conversion_;
  Aside aside_;
  bool has_state_ = false;  // dense and at a step's end
  Commit caught_up_at_;     // newest commit when this member last began
  int64_t recomputed_since_begin_ = 0;
  View announced_;          // view of the last kCaughtUp

  // Service thread only:
  std::deque<Letter> letters_of_next_view_;
  PlanPointer opening_;  // being connected

  std::atomic<int> recovery_ = 0;
  std::atomic<int64_t> service_nanoseconds_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::deque<ControllerMessage> orders_;
  MemberWork work_;
  View opening_view_;                          // of the newest plan that has come
  std::optional<Trouble> trouble_;             // the newest that was reported in an open view
  std::optional<SlotLetter> cannot_;           // the newest refusal of a source
  bool released_ = false;
};

}  // namespace evermoe
