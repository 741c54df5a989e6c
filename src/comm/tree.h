// Gathering and spreading over a binomial tree of a communicator's members: log2(n) steps and n - 1
// messages each way, instead of n (n - 1) messages in one step. Nothing is added on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "comm/group_messages.h"

namespace evermoe {

// Member i brings the range [begins[i], begins[i + 1]) of `bytes`. Member 0 ends with all of them,
// the others with those of their subtree.
absl::Status gather_over_tree(GroupMessages& group, Tag tag, std::span<std::byte> bytes,
                              std::span<const int64_t> begins);

// All end with the root's bytes.
absl::Status broadcast_over_tree(GroupMessages& group, Tag tag, int root,
                                 std::span<std::byte> bytes);

}  // namespace evermoe
