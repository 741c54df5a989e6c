#include "comm/channel/peer_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {

PeerTable::PeerTable(Rank rank, int size, View since, std::string address)
    : rank_(rank), address_(std::move(address)), since_(since), places_(static_cast<size_t>(size)) {
  CHECK(rank.value >= 0 && rank.value < size) << "rank " << rank << " of " << size;
}

PeerChanges PeerTable::update(const std::vector<PeerAddress>& table) {
  CHECK(table.size() == places_.size())
      << "a table of " << table.size() << " for " << places_.size() << " ranks";
  const PeerAddress& own = table[static_cast<size_t>(rank_.value)];
  if (own.address == address_) since_ = std::max(since_, own.since);
  PeerChanges changes;
  for (size_t i = 0; i < table.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    if (rank != rank_) update(rank, table[i], changes);
  }
  return changes;
}

// Half of a table may have nobody, and of the others hardly one changes: neither may cost much.
void PeerTable::update(Rank rank, const PeerAddress& entry, PeerChanges& changes) {
  Place& place = places_[static_cast<size_t>(rank.value)];
  if (entry.address.empty()) {
    if (!std::exchange(place.is_vacant, true))
      changes.dropped[rank] = PeerLost(rank, absl::StrCat("nobody plays rank ", rank.value));
    place.process.reset();
    return;
  }
  place.is_vacant = false;
  std::optional<NamedProcess>& named = place.process;
  const View since = std::max(entry.since, since_);
  if (named && named->address == entry.address && named->since >= since) return;
  if (named)
    changes.dropped[rank] = PeerLost(rank, absl::StrCat("another process plays rank ", rank.value));
  const bool is_older = entry.since != since_ ? entry.since < since_ : rank < rank_;
  named = NamedProcess{entry.address, since, is_older};
  changes.named[rank] = *named;
}

}  // namespace evermoe
