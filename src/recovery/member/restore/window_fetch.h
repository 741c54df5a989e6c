// Gathers this rank's own snapshots in its store: what is there and sound stays, the rest comes
// from the sources that the plan names, from all of them at once.
#pragma once

#include <functional>
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
#include "recovery/member/restore/source_shares.h"
#include "recovery/member/trouble_reporter.h"
#include "recovery/protocol/member_messages.h"
#include "recovery/protocol/message_sender.h"

namespace evermoe {

// Refusals that have come: this source has no usable copy of a slot. Requests are repeated, so that
// one source may refuse twice. Threads: any.
class RefusedSlots {
 public:
  using Refusal = std::pair<Rank, SlotTime>;
  void add(Rank source, SlotTime time) {
    const MutexLock lock(mutex_);
    refused_.emplace_back(source, time);
  }
  std::vector<Refusal> take() {
    const MutexLock lock(mutex_);
    return std::exchange(refused_, {});
  }

 private:
  Mutex mutex_;
  std::vector<Refusal> refused_ ABSL_GUARDED_BY(mutex_);
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
    RefusedSlots& refused;
    WorkCounts& counts;
  };
  struct Fetched {
    std::vector<std::string> sources;  // for people: where slots came from, in order
    // Who has all of it, of those whom the newest plan that was needed names; nullopt if all was in
    // this process's own memory.
    std::optional<std::vector<Rank>> asked;
  };
  // Called with each slot, in order, as soon as it and all before it are in the store.
  using OnSlot = std::function<absl::Status(SlotTime)>;

  explicit WindowFetch(Dependencies dependencies) : in_(std::move(dependencies)) {}

  // Returns when all of these are in the store. Where no source has a usable copy it tells the
  // controller and goes on by the next plan. Cancelled if the member has to go back.
  absl::StatusOr<Fetched> fetch(
      const std::vector<SlotTime>& times,
      const OnSlot& on_slot = [](SlotTime) { return absl::OkStatus(); });

 private:
  // What one fetch() has come to.
  struct Progress {
    std::vector<SlotTime> missing;  // in order
    std::vector<SlotTime> own;      // were here from the beginning
    std::vector<std::string> sources;
    View view;  // of the plan that names them
    SourceShares shares;
  };

  void drop_damaged(const std::vector<SlotTime>& times);
  absl::Status take_arrived(Progress& progress, const OnSlot& on_slot);
  void follow(const Plan& plan, Progress& progress);
  // True if somebody has to be asked instead.
  bool take_refusals(Progress& progress);
  void ask(const Progress& progress);
  absl::Status report_missing(const Progress& progress, SlotTime time);
  std::vector<int32_t> arrived(SlotTime time) const;
  size_t count_chunks(const std::vector<SlotTime>& times) const;

  const Dependencies in_;
};

}  // namespace evermoe
