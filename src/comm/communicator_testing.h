// What tests of collective calls share: members' values, the dumb oracle, all transports.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "base/split_mix.h"
#include "comm/communicator.h"
#include "comm/transport/rank_threads_testing.h"

namespace evermoe {

inline std::vector<Rank> everybody(int size) {
  std::vector<Rank> members;
  for (int i = 0; i < size; ++i) members.push_back(Rank(i));
  return members;
}

// The values that member `index` brings: of very different magnitudes, so that the order of
// additions shows in the bits.
template <typename T>
std::vector<T> values_of(int index, size_t count) {
  // In registers, because millions are drawn, and under a sanitizer every access to the state of a
  // std::mt19937_64 is checked.
  uint64_t state = static_cast<uint64_t>(index) * 7919 + count;
  const auto random = [&state] { return split_mix(state += kSplitMixStep); };
  std::vector<T> values(count);
  for (T& value : values) {
    const auto bits = static_cast<int64_t>(random());
    value = static_cast<T>(bits >> (random() % 60));
  }
  return values;
}

template <typename T>
T apply(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMin) return b < a ? b : a;
  if (op == ReduceOp::kMax) return a < b ? b : a;
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename T>
std::vector<T> reduced(int members, size_t count, ReduceOp op) {
  std::vector<T> result = values_of<T>(0, count);
  for (int i = 1; i < members; ++i) {
    const std::vector<T> other = values_of<T>(i, count);
    for (size_t k = 0; k < count; ++k) result[k] = apply(op, result[k], other[k]);
  }
  return result;
}

template <typename T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// Uneven parts, some of them empty.
inline std::vector<int64_t> ragged_begins(int members, size_t count) {
  std::vector<int64_t> begins{0};
  for (int i = 1; i < members; ++i) {
    begins.push_back(static_cast<int64_t>(
        i % 2 == 1 ? count / 2 : count * static_cast<size_t>(i) / static_cast<size_t>(members)));
    begins.back() = std::max(begins.back(), begins[begins.size() - 2]);
  }
  begins.push_back(static_cast<int64_t>(count));
  return begins;
}

// A world of one process per member, for each transport and number of members.
class CommunicatorFixture : public testing::TestWithParam<std::tuple<TransportKind, int>> {
 protected:
  int members() const { return std::get<1>(GetParam()); }

  void run(const std::function<void(Communicator&)>& body) {
    run_ranks(std::get<0>(GetParam()), members(), [&](Transport& transport) {
      Communicator world(transport, everybody(members()),
                         {.view = View(1), .deadline = absl::Seconds(30)});
      body(world);
      EXPECT_TRUE(world.barrier().ok());
    });
  }
};

inline std::string fixture_name(
    const testing::TestParamInfo<std::tuple<TransportKind, int>>& info) {
  return kind_name(std::get<0>(info.param)) + std::to_string(std::get<1>(info.param));
}

inline auto all_transports_and_sizes() {
  return testing::Combine(
      testing::Values(TransportKind::kUnix, TransportKind::kUcx, TransportKind::kInProcess),
      testing::Values(1, 2, 3, 4, 5));
}

}  // namespace evermoe
