// Which slots of a rank's own snapshots are captured, who keeps copies of them, and which copies
// are known to have arrived.
//
// Pure. Threads: one at a time, the owner sees to that.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "comm/transport/transport.h"
#include "protection/schedule/capture_schedule.h"

namespace evermoe {

class CopyLedger {
 public:
  struct MissingCopy {
    Rank holder;
    SlotTime time;
    friend bool operator==(const MissingCopy&, const MissingCopy&) = default;
  };

  // A window of so many slots is about to be captured.
  void begin_window(Step window, int slots) { slots_of_window_[window] = slots; }
  void on_captured(SlotTime time);
  // These have been put into the store from the copies of `sources`: they are as good as captured,
  // and these have them. Their windows have so many `slots`.
  void adopt(const std::vector<SlotTime>& times, int slots, const std::vector<Rank>& sources);
  void on_acknowledged(Rank holder, SlotTime time);
  // `table`: addresses by rank. A holder that stays the same process has what it had; a successor
  // of one has nothing. Former holders and `sources`, of what this rank is to be restored from,
  // keep copies, too, until release().
  void set_holders(const std::vector<Rank>& holders, const std::vector<PeerAddress>& table,
                   const std::vector<Rank>& sources);
  // As if it had not been captured: its window will not be complete.
  void give_up(SlotTime time) { captured_.erase(slot(time)); }
  // Everybody has `window`: nobody goes back further.
  void forget_before(Step window);
  // Windows that begin after `complete` and before `end` are given up.
  void forget_between(Step complete, Step end);
  // Nothing is captured any more. The holders stay.
  void clear();

  // Those that keep copies without being holders, once: when the holders have the window to which
  // others would go back, and everything since. A process that was given a newer state has not got
  // that window, and those that keep it are its only holders until all have a newer one.
  std::vector<Rank> release();

  std::vector<Rank> holders() const;
  using IsNeeded = std::function<bool(SlotTime)>;
  // Every holder has all that is captured, or what is needed of it.
  bool is_settled(const IsNeeded& is_needed = [](SlotTime) { return true; }) const;
  // First state of the newest window that is captured in full and acknowledged by all holders; -1.
  // Its gradients do not count.
  Step complete_window() const;
  // Of what is captured and of the slots under way, holder by holder, oldest first.
  std::vector<MissingCopy> missing(const std::vector<SlotTime>& under_way) const;

 private:
  using Slot = std::pair<Step, int>;  // window and slot
  struct Holder {
    Rank rank;
    PeerAddress address;
    std::set<Slot> acknowledged;
  };

  static Slot slot(SlotTime time) { return {time.window, time.slot}; }
  bool is_captured(Step window) const;  // in full

  std::vector<Holder> holders_;
  std::set<Rank> former_;    // that may still keep copies
  std::set<Slot> captured_;  // that are complete here
  std::map<Step, int> slots_of_window_;
  Step agreed_{-1};  // the newest window that everybody has; -1: not known
};

}  // namespace evermoe
