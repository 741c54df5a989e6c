#include "data/sample_order.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/split_mix.h"

namespace evermoe {
namespace {

// Six rounds: four make a Feistel network with good round functions indistinguishable from random,
// two more cost little.
constexpr int kRounds = 6;

uint64_t mix(uint64_t x) { return split_mix(x + kSplitMixStep); }

// A permutation of 0 .. 2^(2 half_bits) - 1.
struct Feistel {
  int half_bits;
  uint64_t key;

  uint64_t operator()(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits) - 1;
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t round_key = mix(key + static_cast<uint64_t>(round));
      const uint64_t next = left ^ (mix(round_key ^ right) & mask);
      left = right;
      right = next;
    }
    return left << half_bits | right;
  }
};

}  // namespace

int64_t permuted(int64_t index, int64_t count, uint64_t seed, uint64_t epoch) {
  CHECK(0 <= index && index < count) << "index=" << index << " count=" << count;
  const int bits = std::bit_width(static_cast<uint64_t>(count - 1));
  const Feistel permutation{std::max(1, (bits + 1) / 2), mix(mix(seed) ^ epoch)};
  // The network's domain is less than four times count (four when count is 1): walking its cycle
  // until it comes back below count takes few turns, and it must come back, to `index` at the
  // latest.
  auto value = static_cast<uint64_t>(index);
  do {
    value = permutation(value);
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

int64_t SampleOrder::window_of(Step step, MicroBatch micro_batch, int64_t row,
                               std::span<const int64_t> quarantined) const {
  CHECK(windows >= 1 && 0 <= micro_batch.value && micro_batch.value < micro_batches && 0 <= row &&
        row < micro_batch_size && step.value >= 0)
      << "windows=" << windows << " step=" << step << " micro_batch=" << micro_batch
      << " row=" << row;
  const int64_t sample = (step.value * micro_batches + micro_batch.value) * micro_batch_size + row;
  CHECK(std::ssize(quarantined) < windows) << quarantined.size() << " of " << windows;
  int64_t window =
      permuted(sample % windows, windows, seed, static_cast<uint64_t>(sample / windows));
  while (std::ranges::binary_search(quarantined, window)) window = (window + 1) % windows;
  return window;
}

int64_t window_count(int64_t tokens, int64_t sequence_length) {
  CHECK(sequence_length >= 1) << sequence_length;
  return tokens < 1 ? 0 : (tokens - 1) / sequence_length;
}

}  // namespace evermoe
