// The memory of a process that is about to take this rank's role (LeaveOrder), as a destination of
// captures: it is given what this rank keeps of its own snapshots and of others', so that all are
// as well protected after the switch as before, and at last the role's whole state.
//
// Nobody waits for it but a role that has stopped, and nothing that fails on the way there is any
// trouble of the job: the move is called off.
//
// Threads: as said at each method, and at those of CopyDestination.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "recovery/member/serve/peer_memory.h"

namespace evermoe {

class JoinerMemory final : public CopyDestination {
 public:
  struct Dependencies {
    Rank rank;
    Rank seat;  // where joiners of this role are (other_process())
    Transport& transport;
    SnapshotStore& store;
    ControlLink& control;
    Clock& clock;
    // For so long nothing of what is handed over may arrive: then the role stays (CannotLeave).
    absl::Duration silence_max = absl::InfiniteDuration();
  };
  JoinerMemory(Dependencies dependencies, const CopyGateOptions& gate);

  // ---- service thread

  // There is a joiner, whom the transport has been told of. It is offered what is in the store.
  // False if it is known already.
  bool begin(View view, const PeerAddress& joiner);
  // Whom the joiner is to connect with.
  void introduce(const Neighbours& neighbours) {
    sender_.send(in_.seat, view_, MessageKind::kConnect, encode(neighbours));
  }
  // It has been said where the role stops: what that waits for goes before copies of others.
  void put_own_first() { peer_.set_own_first(true); }
  void end();
  // The role stands, and gives what is needed of its own. What comes of others now it need not
  // keep: its memory ends with the switch, and who takes the role is offered that by its owners.
  bool gives_only_own() const { return is_there_ && needed_ != nullptr; }
  bool is_seat(Rank rank) const { return rank == in_.seat; }
  // This rank has come to keep this chunk of another one's slot, which may be complete with it.
  void on_kept(const Chunk& chunk, bool is_complete);
  void on_acknowledged(const SlotMessage& slot);
  // The joiner lacks these; nullopt: this rank has freed them meanwhile, or they are damaged.
  void on_wanted(const SlotMessage& slot, std::optional<std::vector<Chunk>> chunks);

  // ---- any thread

  // The role has stopped: of its own snapshots these still go out, and nothing else. Copies of
  // others are offered by their owners after the switch.
  void give_only(CopyLedger::IsNeeded is_needed);
  // It has these, or there is none.
  bool has_all(const CopyLedger::IsNeeded& is_needed) const {
    return !is_there_ || peer_.is_settled(is_needed);
  }

  // ---- CopyDestination: of what it lacks no window and no step has to know

  bool takes(SlotTime) const override { return is_there_; }
  void begin_window(Step window, int slots) override { peer_.begin_window(window, slots); }
  void on_captured(SlotTime time) override { peer_.on_captured(time); }
  void adopt(const std::vector<SlotTime>& times, int slots, const std::vector<Rank>&) override;
  void give_up(SlotTime time) override { peer_.give_up(time); }
  bool is_settled() const override { return true; }
  Step complete_window() const override { return Step(INT64_MAX); }
  int64_t taken() const override { return sender_.chunks_taken(); }
  void on_silence() override;
  void forget_before(Step window) override { peer_.forget_before(window); }
  void forget_between(Step complete, Step end) override { peer_.forget_between(complete, end); }
  void clear() override { peer_.clear(); }
  absl::Status add(const Chunk& chunk) override;
  void suspend() override { peer_.suspend(); }
  void work(const Pressure& pressure) override;
  bool has_room(bool is_urgent) const override;
  absl::Duration pause(const Pressure& pressure) override;

 private:
  CopyLedger::IsNeeded take_gives_only();
  void offer(const SlotMessage& slot);
  void offer_kept();
  void note_given(const SlotMessage& slot);
  // Whether anything of what is handed over has not arrived.
  bool is_handing_over() const;
  void watch_hand_over();
  void tell_not_taken();

  const Dependencies in_;
  MessageSender sender_;  // its own: it may never arrive
  PeerMemory peer_;
  std::atomic<bool> is_there_ = false;
  mutable Mutex mutex_;
  CopyLedger::IsNeeded gives_only_ ABSL_GUARDED_BY(mutex_);  // empty: that is not wanted anew
  // Service thread only:
  View view_;
  std::optional<PeerAddress> joiner_;
  std::vector<SlotMessage> at_first_;  // of what was there at begin(), what it lacks
  std::vector<SlotMessage> kept_;      // of others, whose chunks go out, since
  CopyLedger::IsNeeded needed_;        // of which the role waits for nothing else; empty: no wait
  absl::Duration heard_ = absl::ZeroDuration();  // the last that has arrived of a hand-over
  int64_t taken_before_ = 0;
  bool has_told_ = false;  // that it is not taken
};

}  // namespace evermoe
