// LOSSY: which experts a partial-expert checkpoint (PEC) saves.
//
// Such a checkpoint holds everything but the experts, and only K experts of each layer. After a
// failure the other experts go back to older states, so the tokens they had learned from since are
// lost (lost_tokens.h counts them). A full checkpoint at step 0 is needed: an expert that was never
// saved cannot be recovered.
//
// All selections are pure: every rank computes the same one. What they depend on (cursor, numbers
// of the last saves, counters) moves only when the checkpoint is *committed* on all ranks; a
// selection whose checkpoint failed or was overwritten is as if it had never been made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evermoe {

// By layer, the experts to save, in the order in which they were chosen.
using LossySelection = std::vector<std::vector<int>>;

// A table by layer and expert.
using ExpertTable = std::vector<std::vector<int64_t>>;

// Experts in an order that goes round the ranks: the first expert of every rank, then the second,
// and so on. With E experts on R ranks in blocks this is pi(p) = (p mod R)(E / R) + p / R. Any run
// of this order is spread evenly over the ranks, where the plain order would put K neighbours on
// one rank. `owner_of[e]` is expert e's rank, 0 <= it < ranks.
std::vector<int> interleaved_experts(std::span<const int> owner_of, int ranks);

// Sequential: layer l saves positions cursor + l k .. cursor + l k + k - 1 of `interleaved`,
// cyclically. The cursor is the sum of k over the committed checkpoints. Every expert is saved at
// least once in ceil(E / k) commits; if every rank owns as many experts, ranks save equally many,
// give or take one.
// REQUIRES: 1 <= k <= experts.
LossySelection lossy_sequential(int64_t cursor, int layers, int k,
                                std::span<const int> interleaved);

// For a k that changes: the k experts of each layer whose last save is oldest. `last_saved` holds
// the number of the last commit that saved an expert, -1 for the full one at step 0. Ties go by
// position in `interleaved`, which begins at position l k for layer l. The ages are those of
// lossy_sequential, also where k does not divide E, though the experts may differ.
LossySelection lossy_oldest(const ExpertTable& last_saved, int k, std::span<const int> interleaved);

struct LossyLoadSelection {
  LossySelection selection;
  int capacity = 0;  // experts that a rank saves at most
  int repairs = 0;   // experts that were found by exchanging others
};

// Load-aware: experts with most unsaved tokens first, over all layers at once (ties: lower layer,
// then lower expert), as long as the layer has fewer than k and the rank fewer than ceil(layers k /
// ranks). Layers that this leaves short are filled by exchanges between layers. So exactly k per
// layer, within capacity, where every rank owns equally many experts; otherwise the capacity is
// raised as far as needed. PEC's Algorithm 1 goes layer by layer from the last one and repairs
// nothing: it saves too few experts, and early layers starve. REQUIRES: 1 <= k <= experts.
LossyLoadSelection lossy_load_aware(const ExpertTable& unsaved, int k,
                                    std::span<const int> owner_of, int ranks);

// Two levels: every checkpoint copies `snapshot` to host memory and writes only `persist` to
// storage.
struct LossyTwoLevelSelection {
  LossySelection snapshot;
  LossySelection persist;  // a part of snapshot
};

// The snapshot_k experts with the oldest snapshot; of these the persist_k with the oldest stored
// image. Let persist_k divide snapshot_k and snapshot_k divide E: with E = 8, 3 and 1 make stored
// images 9 checkpoints old, where 4 and 1 make them 7. REQUIRES: 1 <= persist_k <= snapshot_k <=
// experts.
LossyTwoLevelSelection lossy_two_level(const ExpertTable& last_snapshot,
                                       const ExpertTable& last_persist, int snapshot_k,
                                       int persist_k, std::span<const int> interleaved);

}  // namespace evermoe
