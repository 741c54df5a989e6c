#include "comm/tree.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace evermoe {
namespace {

// A member's place in a binomial tree over all of them. The subtree of a member is a range of
// indices that begins with its own, so that what it gathers is in index order.
struct TreePlace {
  TreePlace(int own, int members)
      : index(own), end(own == 0 ? members : std::min(members, own + (own & -own))) {}
  int parent() const { return index & (index - 1); }
  // The nearest child first.
  std::vector<TreePlace> children(int members) const {
    std::vector<TreePlace> result;
    for (int step = 1; index + step < end; step *= 2) result.emplace_back(index + step, members);
    return result;
  }
  int index;
  int end;  // of the subtree
};

}  // namespace

absl::Status gather_over_tree(GroupMessages& group, Tag tag, std::span<std::byte> bytes,
                              std::span<const int64_t> begins) {
  const auto range = [&](const TreePlace& place) {
    const auto begin = static_cast<size_t>(begins[static_cast<size_t>(place.index)]);
    return bytes.subspan(begin,
                         static_cast<size_t>(begins[static_cast<size_t>(place.end)]) - begin);
  };
  const TreePlace own(group.index(), group.size());
  std::vector<PendingMessage> messages;
  for (const TreePlace& child : own.children(group.size()))
    messages.push_back(group.receive(child.index, tag, range(child)));
  RETURN_IF_ERROR(wait_all(messages));
  return group.index() == 0 ? absl::OkStatus() : group.send(own.parent(), tag, range(own)).wait();
}

absl::Status broadcast_over_tree(GroupMessages& group, Tag tag, int root,
                                 std::span<std::byte> bytes) {
  const TreePlace own((group.index() - root + group.size()) % group.size(), group.size());
  const auto member = [&](int place) { return (place + root) % group.size(); };
  if (group.index() != root)
    RETURN_IF_ERROR(group.receive(member(own.parent()), tag, bytes).wait());
  std::vector<PendingMessage> messages;
  for (const TreePlace& child : own.children(group.size()))
    messages.push_back(group.send(member(child.index), tag, bytes));
  std::reverse(messages.begin(), messages.end());
  return wait_all(messages);
}

}  // namespace evermoe
