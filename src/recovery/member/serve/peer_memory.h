// The memory of a rank's holders as a destination of its captures. Chunks go out one after the
// other, as many at a time as the gate allows; a holder acknowledges a slot that it has in full.
// What it has not acknowledged is offered to it again, and it says what it lacks.
//
// Threads: as said at each method, and at those of CopyDestination.
#pragma once

#include <deque>
#include <vector>

#include "base/mutex.h"
#include "comm/transport/transport.h"
#include "env/clock.h"
#include "protection/schedule/copy_gate.h"
#include "recovery/member/serve/copy_destination.h"
#include "recovery/member/serve/copy_ledger.h"
#include "recovery/protocol/message_sender.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

class PeerMemory final : public CopyDestination {
 public:
  struct Dependencies {
    Rank rank;
    MessageSender& sender;
    const Transport& transport;  // whose training messages copies make way for
    Clock& clock;
  };
  PeerMemory(Dependencies dependencies, const CopyGateOptions& gate)
      : in_(dependencies), options_(gate), gate_(gate) {}

  // ---- service thread

  // A new view: who keeps this rank's copies now. They are offered what they have not acknowledged;
  // when they have it all, others that keep copies are told to forget them.
  void set_holders(const Plan& plan);
  // The same in words: `table` by rank, and `sources` of what this rank is to be restored from.
  void set_holders(View view, const std::vector<Rank>& holders,
                   const std::vector<PeerAddress>& table, const std::vector<Rank>& sources);
  void on_acknowledged(Rank holder, SlotTime time);
  // A holder lacks these of what it was offered. They go out at the pace of captures' chunks, so
  // that what others wait for does not queue behind them.
  void send_wanted(Rank holder, std::vector<Chunk> chunks);
  // From now on what is captured goes before all that is wanted, or no longer.
  void set_own_first(bool own_first);
  // Of what waits to go out only these of this rank's own do.
  void send_only(const CopyLedger::IsNeeded& is_needed);
  // Chunks of a hand-over that wait to go out.
  size_t handed_waiting() const { return handed_waiting_; }
  bool is_any_waiting() const { return !first_.empty() || !later_.empty(); }

  // ---- CopyDestination

  void begin_window(Step window, int slots) override;
  void on_captured(SlotTime time) override;
  void adopt(const std::vector<SlotTime>& times, int slots,
             const std::vector<Rank>& sources) override;
  void give_up(SlotTime time) override;
  bool is_settled() const override;
  // The same of what is needed.
  bool is_settled(const CopyLedger::IsNeeded& is_needed) const;
  Step complete_window() const override;
  void on_silence() override;
  void forget_before(Step window) override;
  void forget_between(Step complete, Step end) override;
  void clear() override;
  absl::Status add(const Chunk& chunk) override;
  void suspend() override { drop_outgoing(); }
  void work(const Pressure& pressure) override;
  bool has_room(bool is_urgent) const override;
  absl::Duration pause(const Pressure& pressure) override;

 private:
  struct Outgoing {
    Rank holder;
    Chunk chunk;
  };

  // What holders have not acknowledged is offered to them: they say what they lack.
  enum class Offer {
    kNothing,
    kWhenSent,  // once everything that was captured has been sent
    kNow,
  };

  Outgoing take_next();
  void drop_outgoing();
  bool may_send(const Pressure& pressure);
  void send_chunk(const Pressure& pressure);
  void offer_missing(const Pressure& pressure);
  void release_former();
  Offer offer() const;
  View view() const;

  const Dependencies in_;
  const CopyGateOptions options_;
  mutable Mutex mutex_;  // not held while the sender is called
  Offer offer_ ABSL_GUARDED_BY(mutex_) = Offer::kNothing;
  CopyLedger ledger_ ABSL_GUARDED_BY(mutex_);
  View view_ ABSL_GUARDED_BY(mutex_);
  // Service thread only:
  std::deque<Outgoing> first_, later_;  // nothing of these before all of those have gone
  size_t handed_waiting_ = 0;           // at the front of the first
  bool own_first_ = false;
  size_t in_flight_ = 0;  // messages
  CopyGate gate_;
};

}  // namespace evermoe
