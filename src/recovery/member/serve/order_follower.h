// Does what the controller orders: stops for a view and reports, opens it when its plan comes, ends
// when everybody has finished.
//
// A report says which state this member has, and a stage goes on from a state only if all its lanes
// have it. So a member that has made a commit, and is at the update, answers when that is done: it
// takes less than the steps that the stage would have to run again.
//
// A role's joiner is introduced by the process that it is to follow, to those with whom that is
// connected, and to their joiners: so they have their connections with it before it plays the role.
//
// A view opens as soon as its plan comes. Whether the others are there shows when something is
// exchanged with them.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "comm/transport/signal.h"
#include "env/clock.h"
#include "recovery/member/member_views.h"
#include "recovery/member/role_leave.h"
#include "recovery/member/serve/joiner_memory.h"
#include "recovery/member/serve/peer_memory.h"
#include "recovery/member/serve/snapshot_copies.h"
#include "recovery/member/train/boundary_exchange.h"
#include "recovery/member/trouble_reporter.h"
#include "recovery/plan/recovery_memory.h"

namespace evermoe {

// Orders that have come and were not followed yet. Threads: any.
class OrderQueue {
 public:
  void push(ControllerMessage order) {
    const MutexLock lock(mutex_);
    orders_.push_back(std::move(order));
  }
  std::optional<ControllerMessage> pop() {
    const MutexLock lock(mutex_);
    if (orders_.empty()) return std::nullopt;
    ControllerMessage order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

 private:
  Mutex mutex_;
  std::deque<ControllerMessage> orders_ ABSL_GUARDED_BY(mutex_);
};

// Threads: service thread only, but incident_under_way().
class OrderFollower {
 public:
  struct Dependencies {
    Rank rank;
    int stage;
    Clock& clock;
    bool keeps_copies;
    Transport& transport;
    Signal& wake_training;
    MessageSender& sender;
    OrderQueue& orders;
    MemberViews& views;
    RoleLeave& leave;
    ControlLink& control;
    TroubleReporter& troubles;
    RecoveryMemory& memory;
    SnapshotCopies& copies;
    PeerMemory& peers;
    JoinerMemory& joiner;
    BoundaryExchange& exchange;
    // A view has just been opened.
    std::function<void()> on_opened;
  };
  explicit OrderFollower(Dependencies dependencies) : in_(std::move(dependencies)) {}

  // Follows every order that has come.
  void follow();
  // Who will play this role is there, and will connect (MessageKind::kComing).
  absl::Status expect(Rank role, std::span<const std::byte> joiner);
  // How long it can do without follow(), unless an order comes.
  absl::Duration pause() const;
  // The incident that this member knows to be under way (Plan::incident); 0: none. Any thread.
  int64_t incident_under_way() const { return incident_; }
  // A commit has been made. Any thread.
  void on_recovered() { incident_ = 0; }

 private:
  // A stop that was not answered with a report yet.
  struct Asked {
    View view;
    absl::Duration answered_by;
  };

  // A stop that is not followed yet, because a verdict is on its way (StopOrder::handed_over).
  struct Waiting {
    StopOrder order;
    absl::Duration followed_by;
  };

  void receive(const StopOrder& order);
  void stop_if_due();
  void stop(const StopOrder& order);
  void report_if_ready();
  void leave(const LeaveOrder& order);
  bool take_joiner(const LeaveOrder& order);
  void announce(const PeerAddress& joiner);
  Neighbours neighbours() const;
  absl::Status set_peers() const;
  void open(PlanPointer plan);
  Report report(View view) const;
  bool begins_by(const Plan& plan) const;
  View epoch_of(const Plan& plan) const;  // in which this stage's ranks begin, or have begun

  const Dependencies in_;
  std::optional<Waiting> waiting_;
  std::optional<Asked> asked_;
  std::map<Rank, PeerAddress> joiners_;  // in the open view, by role
  std::atomic<int64_t> incident_ = 0;
};

}  // namespace evermoe
