// Which views of which communicators are over, and why.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "comm/transport/transport.h"

namespace evermoe {

// Few ranges, each disjoint from the others: the job's and a stage's at most.
class Revocations {
 public:
  // False if that much of the range was over before.
  bool add(GroupRange groups, View last, absl::Status reason) {
    CHECK(groups.first <= groups.last && groups.last < kServiceGroup)
        << "groups " << groups.first << " to " << groups.last;
    CHECK(!reason.ok()) << "a view ends for a reason";
    for (Entry& entry : entries_) {
      if (entry.groups == groups) {
        if (entry.last >= last) return false;
        entry = {groups, last, std::move(reason)};
        return true;
      }
      CHECK(entry.groups.last < groups.first || groups.last < entry.groups.first)
          << "ranges overlap";
    }
    entries_.push_back({groups, last, std::move(reason)});
    return true;
  }

  // Why operations of this tag fail; null if they do not. Never for service messages.
  const absl::Status* find(const Tag& tag) const {
    for (const Entry& entry : entries_) {
      if (entry.groups.contains(tag.group) && tag.view <= entry.last) return &entry.reason;
    }
    return nullptr;
  }

 private:
  struct Entry {
    GroupRange groups;
    View last;
    absl::Status reason;
  };
  std::vector<Entry> entries_;
};

}  // namespace evermoe
