// The 64 bits by which UCX matches messages: 13 for the sender's rank, 8 for the view (modulo 256),
// 12 for the group and 31 for the purpose.
//
// On the wire the purpose is changed by bits of the connection's pass (proven_greeting.h), so that
// who does not have it cannot send what a receive here waits for. A service message, which is not
// waited for by name, has 39 bits of the pass instead of view and purpose; those are in its end
// (ucx_bytes.h).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/ids.h"
#include "base/limits.h"
#include "comm/channel/pending_operation.h"

namespace evermoe {

inline constexpr int kPurposeBits = 31;
inline constexpr int kGroupBits = 12;
inline constexpr int kViewBits = 8;
inline constexpr int kRankBits = 13;
static_assert(1 << kRankBits >= kJobSeatsMax);
static_assert(kPurposeBits + kGroupBits + kViewBits + kRankBits == 64);

// The last group is the transport's own: greetings and goodbyes. Their view is the one in which the
// younger of the two processes joined.
inline constexpr uint16_t kOwnGroup = (1 << kGroupBits) - 1;
static_assert(kServiceGroup < kOwnGroup);
inline constexpr uint32_t kHello = 1;
inline constexpr uint32_t kGoodbye = 2;
// Answers a goodbye: who leaves before it has arrived may take it away again by closing the socket.
inline constexpr uint32_t kGoodbyeSeen = 3;
// To a process that is not named any more: it need not see the end of the connection otherwise.
inline constexpr uint32_t kTurnedAway = 4;

inline uint64_t ucx_tag(Rank sender, const Tag& tag) {
  CHECK(tag.purpose >> kPurposeBits == 0 && tag.group >> kGroupBits == 0) << describe(tag);
  uint64_t bits = static_cast<uint64_t>(sender.value);
  bits = bits << kViewBits | (tag.view.value & ((1u << kViewBits) - 1));
  bits = bits << kGroupBits | tag.group;
  return bits << kPurposeBits | tag.purpose;
}

inline constexpr uint64_t kPurposeMask = (uint64_t{1} << kPurposeBits) - 1;
inline constexpr uint64_t kExactly = ~uint64_t{0};
inline constexpr uint64_t kRankMask = ~uint64_t{0} << (kViewBits + kGroupBits + kPurposeBits);
inline constexpr uint64_t kViewMask = ((uint64_t{1} << kViewBits) - 1)
                                      << (kGroupBits + kPurposeBits);
inline constexpr uint64_t kGroupMask = ((uint64_t{1} << kGroupBits) - 1) << kPurposeBits;

// On the wire. Greetings and goodbyes prove themselves.
inline uint64_t passed_tag(Rank sender, const Tag& tag, uint64_t pass) {
  if (tag.group == kOwnGroup) return ucx_tag(sender, tag);
  if (tag.group != kServiceGroup) return ucx_tag(sender, tag) ^ (pass & kPurposeMask);
  return ucx_tag(sender, Tag{View(0), kServiceGroup}) | (pass & (kViewMask | kPurposeMask));
}

inline Rank rank_in(uint64_t bits) {
  return Rank(static_cast<int32_t>(bits >> (kViewBits + kGroupBits + kPurposeBits)));
}

// A range of groups as few tags with masks: visit(first group, mask of the group bits) for aligned
// blocks of 2^n groups.
template <typename Visit>
void for_each_block(GroupRange groups, Visit visit) {
  for (uint32_t at = groups.first; at <= groups.last;) {
    uint32_t size = at == 0 ? 1u << kGroupBits : 1u << std::countr_zero(at);
    while (at + size - 1 > groups.last) size /= 2;
    visit(static_cast<uint16_t>(at), kGroupMask & ~(uint64_t{size - 1} << kPurposeBits));
    at += size;
  }
}

}  // namespace evermoe
