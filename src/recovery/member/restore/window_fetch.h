// Gathers this rank's own snapshots in its store: what is there and sound stays, the rest comes
// from the sources that the plan names, best first.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "parallel/topology.h"
#include "protection/snapshots/snapshot_store.h"
#include "recovery/member/member_options.h"
#include "recovery/member/member_views.h"
#include "recovery/member/trouble_reporter.h"
#include "recovery/protocol/member_messages.h"
#include "recovery/protocol/message_sender.h"

namespace evermoe {

// The newest refusal: this source has no usable copy of a slot. Requests are repeated, so that one
// source may refuse twice, the second time when another one has been asked. Threads: any.
class RefusedSlot {
 public:
  void set(Rank source, SlotTime time) {
    const MutexLock lock(mutex_);
    refused_ = {source, time};
  }
  void clear() {
    const MutexLock lock(mutex_);
    refused_.reset();
  }
  bool is(Rank source, SlotTime time) const {
    const MutexLock lock(mutex_);
    return refused_ == std::pair(source, time);
  }

 private:
  mutable Mutex mutex_;
  std::optional<std::pair<Rank, SlotTime>> refused_ ABSL_GUARDED_BY(mutex_);
};

// Threads: training thread only.
class WindowFetch {
 public:
  struct Dependencies {
    Rank rank;
    const Topology& topology;
    SnapshotStore& store;
    MessageSender& sender;
    MemberViews& views;
    TroubleReporter& troubles;
    ControlLink& control;
    RefusedSlot& refused;
    WorkCounts& counts;
  };
  struct Fetched {
    std::vector<std::string> sources;  // for people: where slots came from, in order
    // Whom the newest plan that was needed names; nullopt if all was in this process's own memory.
    std::optional<std::vector<Rank>> asked;
  };

  explicit WindowFetch(Dependencies dependencies) : in_(std::move(dependencies)) {}

  // Returns when all of these are in the store. Where no source has a usable copy it tells the
  // controller and goes on by the next plan. Cancelled if the member has to go back.
  absl::StatusOr<Fetched> fetch(const std::vector<SlotTime>& times);

 private:
  // What one fetch() has come to.
  struct Progress {
    std::vector<std::string> sources;
    std::vector<Rank> asked;
    View view;  // of the plan that named them
    size_t next_source = 0;
    std::optional<SlotTime> asked_for;
    void take_from(Step window, const std::string& source);
  };

  void drop_damaged(const std::vector<SlotTime>& times);
  absl::Status fetch_slot(SlotTime time, Progress& progress);
  // True if the source refused.
  absl::StatusOr<bool> ask(Rank source, View view, SlotTime time);
  std::vector<int32_t> arrived(SlotTime time) const;

  const Dependencies in_;
};

}  // namespace evermoe
