// The plan of a view on its way to the members of one node: what differs from the plan that the
// node has had, and for whom it is. A plan names the process of every role, so sending it whole to
// every role would cost a controller the square of the number of roles, for every view.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

// Entries of a list by rank.
template <typename Entry>
struct RankEntries {
  int32_t size = 0;  // of the whole list
  std::vector<Rank> ranks;
  std::vector<Entry> entries;  // of these ranks; all others are as they were, or empty
};

inline constexpr int32_t kPlanRanksMax = 1 << 16;

struct PlanUpdate {
  struct Addressee {
    int64_t start = 0;  // of the process
    Rank rank;
    View since;
  };
  View base;  // the plan that it changes; View(0): it is whole
  Plan rest;  // without table, holders and sources
  RankEntries<PeerAddress> table;
  RankEntries<std::vector<Rank>> holders;
  RankEntries<std::vector<Rank>> sources;  // always whole: most are empty
  std::vector<Addressee> to;
};

// Of which plan somebody speaks: those of one view are one plan, unless controllers come and go in
// between.
struct PlanName {
  View view;
  Fingerprint fingerprint;  // of what updates leave out
  friend bool operator==(const PlanName&, const PlanName&) = default;
};
PlanName name_of(const Plan& plan);

// To nobody yet. `base` null: whole.
PlanUpdate update_of(const Plan* base, const Plan& plan);

// The plan again. Corrupt unless `base` is the one that the update names and all ranks are inside.
absl::StatusOr<Plan> apply_update(const Plan* base, const PlanUpdate& update);

}  // namespace evermoe
