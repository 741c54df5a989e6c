// The reductions of a communicator (communicator.h says what they promise): contributions are added
// in index order, whatever way they take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "comm/group_messages.h"
#include "comm/pending.h"
#include "comm/reduce.h"

namespace evermoe {

// Up to here an all_reduce or broadcast takes one step: saving a step saves more than saving bytes.
inline constexpr size_t kOneStepBytesMax = 64 << 10;
// More members than these do not all talk to each other for a few bytes.
inline constexpr int kDirectMembersMax = 32;

// Instantiated for float, double and int64_t.
template <typename T>
absl::Status all_reduce(GroupMessages& group, std::span<T> values, ReduceOp op);

// Receives at most so many bytes ahead of what has been added.
template <typename T>
PendingCollective start_reduce_scatter(GroupMessages& group, std::span<const T> values,
                                       std::span<const int64_t> begins, std::span<T> into,
                                       ReduceOp op, size_t window_bytes);

// The same, waited for: a small window, which stays in the cache.
template <typename T>
absl::Status reduce_scatter(GroupMessages& group, std::span<const T> values,
                            std::span<const int64_t> begins, std::span<T> into, ReduceOp op);

}  // namespace evermoe
