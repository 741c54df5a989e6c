#include "comm/transport/meeting_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {

MetProcesses::MetProcesses(Rank rank, int size, View since, std::string address)
    : rank_(rank), address_(std::move(address)), since_(since), met_(static_cast<size_t>(size)) {
  CHECK(rank.value >= 0 && rank.value < size) << "rank " << rank << " of " << size;
}

MeetingPlan MetProcesses::plan(const std::vector<PeerAddress>& table) {
  CHECK(table.size() == met_.size())
      << "a table of " << table.size() << " for " << met_.size() << " ranks";
  const PeerAddress& own = table[static_cast<size_t>(rank_.value)];
  if (own.address == address_) since_ = std::max(since_, own.since);
  MeetingPlan plan;
  for (size_t i = 0; i < table.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    if (rank == rank_) continue;
    const PeerAddress& entry = table[i];
    std::optional<WantedProcess>& met = met_[i];
    if (entry.address.empty()) {
      met.reset();
      plan.dropped[rank] = PeerLost(rank, absl::StrCat("nobody plays rank ", i));
      continue;
    }
    const bool is_older = entry.since != since_ ? entry.since < since_ : rank < rank_;
    WantedProcess wanted{entry.address, std::max(entry.since, since_), is_older};
    if (met && met->address == wanted.address && met->since >= wanted.since) continue;
    if (std::exchange(met, std::nullopt)) {
      plan.dropped[rank] = PeerLost(
          rank, absl::StrCat("another process plays rank ", i, " and has not been met yet"));
    }
    plan.missing[rank] = std::move(wanted);
  }
  return plan;
}

void MetProcesses::add(Rank rank, WantedProcess process) {
  met_[static_cast<size_t>(rank.value)] = std::move(process);
}

}  // namespace evermoe
