#include "comm/channel/peer_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {

PeerTable::PeerTable(Rank rank, int size, View since, std::string address)
    : rank_(rank), address_(std::move(address)), since_(since), named_(static_cast<size_t>(size)) {
  CHECK(rank.value >= 0 && rank.value < size) << "rank " << rank << " of " << size;
}

PeerChanges PeerTable::update(const std::vector<PeerAddress>& table) {
  CHECK(table.size() == named_.size())
      << "a table of " << table.size() << " for " << named_.size() << " ranks";
  const PeerAddress& own = table[static_cast<size_t>(rank_.value)];
  if (own.address == address_) since_ = std::max(since_, own.since);
  PeerChanges changes;
  for (size_t i = 0; i < table.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    if (rank == rank_) continue;
    const PeerAddress& entry = table[i];
    std::optional<NamedProcess>& named = named_[i];
    if (entry.address.empty()) {
      named.reset();
      changes.dropped[rank] = PeerLost(rank, absl::StrCat("nobody plays rank ", i));
      continue;
    }
    const bool is_older = entry.since != since_ ? entry.since < since_ : rank < rank_;
    NamedProcess wanted{entry.address, std::max(entry.since, since_), is_older};
    if (named && named->address == wanted.address && named->since >= wanted.since) continue;
    if (named)
      changes.dropped[rank] = PeerLost(rank, absl::StrCat("another process plays rank ", i));
    named = wanted;
    changes.named[rank] = std::move(wanted);
  }
  return changes;
}

}  // namespace evermoe
