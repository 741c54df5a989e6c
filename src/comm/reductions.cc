#include "comm/reductions.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "comm/part_reduction.h"
#include "comm/tree.h"

namespace evermoe {
namespace {

// Member 0 gathers up to here; what is larger is exchanged directly.
constexpr size_t kTreeBytesMax = 4 << 20;
// Chunks of each peer that are received into scratch memory at the same time by a call that waits.
constexpr size_t kChunksInFlight = 2;

template <typename T>
class ReductionUnderWay final : public PendingCollective::Work {
 public:
  ReductionUnderWay(PartReduction<T> reduction, std::vector<PendingMessage> sends)
      : reduction_(std::move(reduction)), sends_(std::move(sends)) {}

  bool is_complete() const override { return reduction_.is_complete() && sends_.empty(); }
  bool can_go_on() override {
    return reduction_.is_complete() ? are_done(sends_) : reduction_.has_next_come();
  }
  absl::Status go_on() override {
    if (!reduction_.is_complete()) return annotate(reduction_.add_next(), "reduce_scatter");
    RETURN_IF_ERROR(annotate(wait_all(sends_), "reduce_scatter"));
    sends_.clear();
    return absl::OkStatus();
  }

 private:
  PartReduction<T> reduction_;
  std::vector<PendingMessage> sends_;
};

// Calls take(chunk, number) for the chunks of a part, in order.
template <typename T, typename Take>
void for_each_chunk(std::span<T> part, const Take& take) {
  constexpr size_t kChunk = PartReduction<std::remove_const_t<T>>::kChunk;
  size_t number = 0;
  for (size_t first = 0; first < part.size(); first += kChunk) {
    take(part.subspan(first, std::min(kChunk, part.size() - first)), number++);
  }
}

// Of the largest part.
template <typename T>
size_t most_chunks(std::span<const int64_t> begins) {
  constexpr size_t kChunk = PartReduction<T>::kChunk;
  int64_t largest = 0;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    largest = std::max(largest, begins[i + 1] - begins[i]);
  }
  return (static_cast<size_t>(largest) + kChunk - 1) / kChunk;
}

template <typename T>
std::vector<PendingMessage> send_parts(GroupMessages& group, const CallTags& tags,
                                       std::span<const T> values, std::span<const int64_t> begins) {
  std::vector<PendingMessage> sends;
  for (int i = 1; i < group.size(); ++i) {
    const int to = (group.index() + i) % group.size();
    for_each_chunk(part_of(values, begins, to), [&](std::span<const T> chunk, size_t number) {
      sends.push_back(group.send(to, tags.tag(number), std::as_bytes(chunk)));
    });
  }
  return sends;
}

// The part of member index(): `own` is what it brings itself.
template <typename T>
PartReduction<T> reduce_part(GroupMessages& group, const CallTags& tags, std::span<const T> own,
                             std::span<T> into, ReduceOp op, size_t window) {
  return PartReduction<T>(
      [&group, tags](int from, size_t number, std::span<std::byte> place) {
        return group.receive(from, tags.tag(number), place);
      },
      group.size(), group.index(), own, into, op, window);
}

template <typename T>
PendingCollective start_reduction(GroupMessages& group, std::span<const T> values,
                                  std::span<const int64_t> begins, std::span<T> into, ReduceOp op,
                                  size_t window) {
  CHECK(begins.size() == static_cast<size_t>(group.size()) + 1 && begins[0] >= 0);
  CHECK(begins.back() <= static_cast<int64_t>(values.size()));
  const auto own = part_of(values, begins, group.index());
  CHECK(into.size() == own.size());
  const CallTags tags = group.next_collective_tags(most_chunks<T>(begins));
  auto reduction = reduce_part(group, tags, own, into, op, window);
  auto sends = send_parts(group, tags, values, begins);
  return PendingCollective(
      std::make_unique<ReductionUnderWay<T>>(std::move(reduction), std::move(sends)));
}

template <typename T>
absl::Status all_reduce_whole(GroupMessages& group, std::span<T> values, ReduceOp op) {
  const auto members = static_cast<size_t>(group.size());
  const std::unique_ptr<T[]> scratch(new T[values.size() * members]);
  std::vector<std::span<std::byte>> receives;
  std::vector<const T*> inputs;
  for (size_t i = 0; i < members; ++i) {
    const std::span<T> place(&scratch[i * values.size()], values.size());
    receives.push_back(std::as_writable_bytes(place));
    inputs.push_back(place.data());
  }
  inputs[static_cast<size_t>(group.index())] = values.data();
  const std::vector<std::span<const std::byte>> sends(members, std::as_bytes(values));
  RETURN_IF_ERROR(group.exchange(group.next_collective_tag(), sends, receives));
  reduce_in_order<T>(inputs, values.size(), op, values.data());
  return absl::OkStatus();
}

template <typename T>
absl::Status all_reduce_over_tree(GroupMessages& group, std::span<T> values, ReduceOp op) {
  const size_t count = values.size();
  const auto members = static_cast<size_t>(group.size());
  // Only its subtree's part is ever touched.
  const std::unique_ptr<T[]> gathered(new T[count * members]);
  std::vector<int64_t> begins;
  std::vector<const T*> inputs;
  for (size_t i = 0; i <= members; ++i) {
    begins.push_back(static_cast<int64_t>(i * values.size_bytes()));
  }
  for (size_t i = 0; i < members; ++i) inputs.push_back(&gathered[i * count]);
  std::copy(values.begin(), values.end(), &gathered[static_cast<size_t>(group.index()) * count]);
  const std::span<T> all(gathered.get(), count * members);
  RETURN_IF_ERROR(
      gather_over_tree(group, group.next_collective_tag(), std::as_writable_bytes(all), begins));
  if (group.index() == 0) reduce_in_order<T>(inputs, count, op, values.data());
  return broadcast_over_tree(group, group.next_collective_tag(), 0, std::as_writable_bytes(values));
}

// The reduced chunks of a part go out while later chunks of it still come in. Receiving them into
// `values` cannot disturb our own sends from there: who sends us a reduced chunk has received our
// contribution to it before.
template <typename T>
absl::Status all_reduce_parts(GroupMessages& group, std::span<T> values, ReduceOp op) {
  const std::vector<int64_t> begins = even_begins(values.size(), group.size());
  const std::span<T> own = part_of(values, begins, group.index());
  const CallTags tags = group.next_collective_tags(most_chunks<T>(begins));
  const CallTags reduced = group.next_collective_tags(most_chunks<T>(begins));
  std::vector<PendingMessage> messages = send_parts<T>(group, tags, values, begins);
  PartReduction<T> reduction = reduce_part<T>(group, tags, own, own, op, kChunksInFlight);
  for (size_t number = 0; !reduction.is_complete(); ++number) {
    const size_t first = reduction.added();
    RETURN_IF_ERROR(reduction.add_next());
    const auto chunk = std::as_bytes(own.subspan(first, reduction.added() - first));
    for (int i = 1; i < group.size(); ++i) {
      messages.push_back(
          group.send((group.index() + i) % group.size(), reduced.tag(number), chunk));
    }
  }
  for (int i = 1; i < group.size(); ++i) {
    const int from = (group.index() + group.size() - i) % group.size();
    for_each_chunk(part_of(values, begins, from), [&](std::span<T> chunk, size_t number) {
      messages.push_back(group.receive(from, reduced.tag(number), std::as_writable_bytes(chunk)));
    });
  }
  std::reverse(messages.begin(), messages.end());  // receives first: sends finish meanwhile
  return wait_all(messages);
}

}  // namespace

template <typename T>
absl::Status all_reduce(GroupMessages& group, std::span<T> values, ReduceOp op) {
  if (group.size() == 1 || values.empty()) return absl::OkStatus();
  const size_t all_bytes = values.size_bytes() * static_cast<size_t>(group.size());
  if (group.size() > kDirectMembersMax && all_bytes <= kTreeBytesMax) {
    return all_reduce_over_tree(group, values, op);
  }
  return values.size_bytes() <= kOneStepBytesMax ? all_reduce_whole(group, values, op)
                                                 : all_reduce_parts(group, values, op);
}

template <typename T>
PendingCollective start_reduce_scatter(GroupMessages& group, std::span<const T> values,
                                       std::span<const int64_t> begins, std::span<T> into,
                                       ReduceOp op, size_t window_bytes) {
  const size_t others = std::max<size_t>(1, static_cast<size_t>(group.size()) - 1);
  return start_reduction(group, values, begins, into, op,
                         std::max(kChunksInFlight, window_bytes / (kChunkBytes * others)));
}

template <typename T>
absl::Status reduce_scatter(GroupMessages& group, std::span<const T> values,
                            std::span<const int64_t> begins, std::span<T> into, ReduceOp op) {
  return start_reduction(group, values, begins, into, op, kChunksInFlight).wait();
}

#define EVERMOE_INSTANTIATE(T)                                                            \
  template absl::Status all_reduce(GroupMessages&, std::span<T>, ReduceOp);               \
  template PendingCollective start_reduce_scatter(GroupMessages&, std::span<const T>,     \
                                                  std::span<const int64_t>, std::span<T>, \
                                                  ReduceOp, size_t);                      \
  template absl::Status reduce_scatter(GroupMessages&, std::span<const T>,                \
                                       std::span<const int64_t>, std::span<T>, ReduceOp);
EVERMOE_INSTANTIATE(float)
EVERMOE_INSTANTIATE(double)
EVERMOE_INSTANTIATE(int64_t)
#undef EVERMOE_INSTANTIATE

}  // namespace evermoe
