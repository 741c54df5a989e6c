// Collectives out of point-to-point messages. With n members and S bytes of values:
//
//   call                      steps   bytes sent by each member
//   barrier                   1       0 (n - 1 empty messages)
//   all_to_all, all_gather    1       (n - 1) * own part
//   broadcast, small          1       root: (n - 1) * S
//   broadcast, large          2       root: S, everyone: (n - 1) / n * S
//   reduce_scatter            1       S - own part
//   all_reduce, small         1       (n - 1) * S; everyone reduces everything
//   all_reduce, large         2       2 * (n - 1) / n * S; everyone reduces a part and passes it on
//
// Everything is exchanged directly, because a ring or tree would either change the order of the
// additions or need more steps, and steps cost context switches where processes outnumber cores.
// Among more than kDirectMembersMax members the number of messages counts for more: barrier and
// what is small among the rest go over a binomial tree, in 2 log2(n) steps of n - 1 messages in all
// each way. A reduction gathers the contributions there, n * S bytes at member 0, and adds them in
// order.
//
// All messages of one call have one tag: between two members their order is fixed by the algorithm.
// Receives are started before sends, in the order in which the messages will come, so that payload
// goes straight to its place.
#include "comm/communicator.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/reduce.h"

namespace evermoe {
namespace {

// Purposes: bit 30 is set for collectives; the 30 bits below are a sequence number or a name.
constexpr uint32_t kCollective = uint32_t{1} << 30;
constexpr uint32_t kNameMask = kCollective - 1;

// Up to here an all_reduce or broadcast takes one step: saving a step saves more than saving bytes.
constexpr size_t kOneStepBytesMax = 64 << 10;
// More members than these do not all talk to each other for a few bytes.
constexpr int kDirectMembersMax = 32;
// Member 0 gathers up to here; what is larger is exchanged directly.
constexpr size_t kTreeBytesMax = 4 << 20;
// Reductions of large parts go chunk by chunk, so that adding overlaps moving and what has been
// received is still in the cache when it is added.
constexpr size_t kChunkBytes = 256 << 10;
// Chunks of each peer that are received into scratch memory at the same time.
constexpr size_t kChunksInFlight = 2;

int index_of(const std::vector<Rank>& members, Rank rank) {
  const auto found = std::find(members.begin(), members.end(), rank);
  CHECK(found != members.end()) << "rank " << rank << " is no member of its own communicator";
  return static_cast<int>(found - members.begin());
}

absl::Status wait_all(std::vector<PendingMessage>& messages) {
  for (PendingMessage& message : messages) RETURN_IF_ERROR(message.wait());
  return absl::OkStatus();
}

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

// Begins of n parts of `count` elements that differ by at most one in size.
std::vector<int64_t> even_begins(size_t count, int n) {
  std::vector<int64_t> begins;
  for (int i = 0; i <= n; ++i) {
    begins.push_back(static_cast<int64_t>(count * static_cast<size_t>(i) / static_cast<size_t>(n)));
  }
  return begins;
}

}  // namespace

PendingMessage::~PendingMessage() {
  if (operation_) transport_->wait(std::move(operation_), absl::ZeroDuration()).IgnoreError();
}

PendingMessage& PendingMessage::operator=(PendingMessage&& other) noexcept {
  std::swap(transport_, other.transport_);
  std::swap(operation_, other.operation_);
  std::swap(deadline_, other.deadline_);
  std::swap(idle_work_, other.idle_work_);
  return *this;
}

absl::Status PendingMessage::wait() {
  if (!operation_) return absl::OkStatus();
  return wait_for_message(*transport_, std::move(operation_), deadline_, *idle_work_);
}

Communicator::Communicator(Transport& transport, std::vector<Rank> members,
                           CommunicatorOptions options)
    : transport_(transport),
      members_(std::move(members)),
      options_(options),
      index_(index_of(members_, transport.rank())) {}

Tag Communicator::next_collective_tag() {
  return {options_.view, options_.group, kCollective | (collective_count_++ & kNameMask)};
}

PendingMessage Communicator::pending(std::unique_ptr<TransportOperation> operation) {
  PendingMessage message;
  message.transport_ = &transport_;
  message.operation_ = std::move(operation);
  message.deadline_ = options_.deadline;
  message.idle_work_ = &idle_work_;
  return message;
}

PendingMessage Communicator::send(int to, Tag tag, std::span<const std::byte> bytes) {
  return pending(transport_.start_send(rank_of(to), tag, bytes));
}

PendingMessage Communicator::receive(int from, Tag tag, std::span<std::byte> into) {
  return pending(transport_.start_receive(rank_of(from), tag, into));
}

PendingMessage Communicator::start_send(int to, uint32_t name, std::span<const std::byte> bytes) {
  CHECK(name <= kNameMask) << "a message name has 30 bits, not " << name;
  return send(to, {options_.view, options_.group, name}, bytes);
}

PendingMessage Communicator::start_receive(int from, uint32_t name, std::span<std::byte> into) {
  CHECK(name <= kNameMask) << "a message name has 30 bits, not " << name;
  return receive(from, {options_.view, options_.group, name}, into);
}

void Communicator::restart(View view) {
  options_.view = view;
  collective_count_ = 0;
}

absl::Status Communicator::barrier() {
  if (size() > kDirectMembersMax) {
    const std::vector<int64_t> begins(members_.size() + 1);
    RETURN_IF_ERROR(annotate(gather_over_tree(next_collective_tag(), {}, begins), "barrier"));
    return annotate(broadcast_over_tree(next_collective_tag(), 0, {}), "barrier");
  }
  const std::vector<std::span<const std::byte>> nothing_to_send(members_.size());
  const std::vector<std::span<std::byte>> nothing_to_receive(members_.size());
  return annotate(exchange(next_collective_tag(), nothing_to_send, nothing_to_receive), "barrier");
}

// Every pair of members exchanges one message each way; entries at index() are ignored. Peers are
// taken in turn from the next index on, so that not everybody begins with member 0.
absl::Status Communicator::exchange(Tag tag, std::span<const std::span<const std::byte>> sends,
                                    std::span<const std::span<std::byte>> receives) {
  std::vector<PendingMessage> messages;
  messages.reserve(2 * members_.size());
  for (int i = 1; i < size(); ++i) {
    const int from = (index_ + size() - i) % size();
    messages.push_back(receive(from, tag, receives[static_cast<size_t>(from)]));
  }
  for (int i = 1; i < size(); ++i) {
    const int to = (index_ + i) % size();
    messages.push_back(send(to, tag, sends[static_cast<size_t>(to)]));
  }
  return wait_all(messages);
}

absl::Status Communicator::all_to_all(std::span<const std::span<const std::byte>> sends,
                                      std::span<const std::span<std::byte>> receives) {
  CHECK(sends.size() == members_.size() && receives.size() == members_.size());
  const auto own = static_cast<size_t>(index_);
  CHECK(sends[own].size() == receives[own].size());
  if (!sends[own].empty()) std::memmove(receives[own].data(), sends[own].data(), sends[own].size());
  return annotate(exchange(next_collective_tag(), sends, receives), "all_to_all");
}

// Member 0 ends with all the ranges of `bytes`, each of which its member brings.
absl::Status Communicator::gather_over_tree(Tag tag, std::span<std::byte> bytes,
                                            std::span<const int64_t> begins) {
  const auto range = [&](const TreePlace& place) {
    const auto begin = static_cast<size_t>(begins[static_cast<size_t>(place.index)]);
    return bytes.subspan(begin,
                         static_cast<size_t>(begins[static_cast<size_t>(place.end)]) - begin);
  };
  const TreePlace own(index_, size());
  std::vector<PendingMessage> messages;
  for (const TreePlace& child : own.children(size()))
    messages.push_back(receive(child.index, tag, range(child)));
  RETURN_IF_ERROR(wait_all(messages));
  return index_ == 0 ? absl::OkStatus() : send(own.parent(), tag, range(own)).wait();
}

absl::Status Communicator::broadcast_over_tree(Tag tag, int root, std::span<std::byte> bytes) {
  const TreePlace own((index_ - root + size()) % size(), size());
  const auto member = [&](int place) { return (place + root) % size(); };
  if (index_ != root) RETURN_IF_ERROR(receive(member(own.parent()), tag, bytes).wait());
  std::vector<PendingMessage> messages;
  for (const TreePlace& child : own.children(size()))
    messages.push_back(send(member(child.index), tag, bytes));
  std::reverse(messages.begin(), messages.end());
  return wait_all(messages);
}

absl::Status Communicator::all_gather(std::span<std::byte> bytes, std::span<const int64_t> begins) {
  CHECK(begins.size() == members_.size() + 1);
  const auto total = static_cast<size_t>(begins.back() - begins.front());
  if (size() > kDirectMembersMax && total <= kOneStepBytesMax) {
    RETURN_IF_ERROR(annotate(gather_over_tree(next_collective_tag(), bytes, begins), "all_gather"));
    const std::span<std::byte> gathered = bytes.subspan(static_cast<size_t>(begins.front()), total);
    return annotate(broadcast_over_tree(next_collective_tag(), 0, gathered), "all_gather");
  }
  return annotate(gather_parts(next_collective_tag(), bytes, begins), "all_gather");
}

absl::Status Communicator::gather_parts(Tag tag, std::span<std::byte> bytes,
                                        std::span<const int64_t> begins) {
  const auto part = [&](size_t i) {
    return bytes.subspan(static_cast<size_t>(begins[i]),
                         static_cast<size_t>(begins[i + 1] - begins[i]));
  };
  std::vector<std::span<std::byte>> receives;
  for (size_t i = 0; i < members_.size(); ++i) receives.push_back(part(i));
  const std::vector<std::span<const std::byte>> sends(members_.size(),
                                                      part(static_cast<size_t>(index_)));
  return exchange(tag, sends, receives);
}

absl::Status Communicator::broadcast(int root, std::span<std::byte> bytes) {
  const bool one_step = bytes.size() <= kOneStepBytesMax || size() == 2;
  return annotate(one_step ? broadcast_whole(root, bytes) : broadcast_parts(root, bytes),
                  "broadcast");
}

absl::Status Communicator::broadcast_whole(int root, std::span<std::byte> bytes) {
  const Tag tag = next_collective_tag();
  if (size() > kDirectMembersMax) return broadcast_over_tree(tag, root, bytes);
  if (index_ != root) return receive(root, tag, bytes).wait();
  std::vector<PendingMessage> messages;
  for (int to = 0; to < size(); ++to) {
    if (to != root) messages.push_back(send(to, tag, bytes));
  }
  return wait_all(messages);
}

absl::Status Communicator::broadcast_parts(int root, std::span<std::byte> bytes) {
  const Tag scatter = next_collective_tag();
  const std::vector<int64_t> begins = even_begins(bytes.size(), size());
  const auto part = [&](int i) {
    const auto at = static_cast<size_t>(i);
    return bytes.subspan(static_cast<size_t>(begins[at]),
                         static_cast<size_t>(begins[at + 1] - begins[at]));
  };
  std::vector<PendingMessage> messages;
  for (int to = 0; index_ == root && to < size(); ++to) {
    if (to != root) messages.push_back(send(to, scatter, part(to)));
  }
  if (index_ != root) RETURN_IF_ERROR(receive(root, scatter, part(index_)).wait());
  RETURN_IF_ERROR(wait_all(messages));
  // Then everyone passes its part on, except to the root, which has it.
  std::vector<std::span<const std::byte>> passes(members_.size(), part(index_));
  if (index_ != root) passes[static_cast<size_t>(root)] = {};
  std::vector<std::span<std::byte>> parts(members_.size());
  for (int i = 0; index_ != root && i < size(); ++i) parts[static_cast<size_t>(i)] = part(i);
  return exchange(next_collective_tag(), passes, parts);
}

// Member i ends with the reduction of its part in `into`. Calls on_chunk(first, last), element
// positions within the part, for each piece that is complete. The sends go to `sends`: they may
// still be in flight when this returns.
template <typename T, typename OnChunk>
absl::Status Communicator::reduce_part(Tag tag, std::span<const T> values,
                                       std::span<const int64_t> begins, std::span<T> into,
                                       ReduceOp op, std::vector<PendingMessage>& sends,
                                       OnChunk on_chunk) {
  constexpr size_t kChunk = kChunkBytes / sizeof(T);
  for (int i = 1; i < size(); ++i) {
    const int to = (index_ + i) % size();
    const auto part = part_of(values, begins, to);
    for (size_t first = 0; first < part.size(); first += kChunk) {
      sends.push_back(
          send(to, tag, std::as_bytes(part.subspan(first, std::min(kChunk, part.size() - first)))));
    }
  }
  const auto own = part_of(values, begins, index_);
  const size_t chunk = std::min(kChunk, own.size());
  const size_t stride = chunk * members_.size();
  const std::unique_ptr<T[]> scratch(new T[stride * kChunksInFlight]);
  std::vector<std::vector<PendingMessage>> receives(kChunksInFlight);
  const auto start_receives = [&](size_t first, size_t slot) {
    for (int i = 0; i < size() && first < own.size(); ++i) {
      if (i == index_) continue;
      const std::span<T> place(&scratch[slot * stride + static_cast<size_t>(i) * chunk],
                               std::min(chunk, own.size() - first));
      receives[slot].push_back(receive(i, tag, std::as_writable_bytes(place)));
    }
  };
  for (size_t slot = 0; slot < kChunksInFlight; ++slot) start_receives(slot * chunk, slot);
  std::vector<const T*> inputs(members_.size());
  size_t slot = 0;
  for (size_t first = 0; first < own.size(); first += chunk, slot = (slot + 1) % kChunksInFlight) {
    RETURN_IF_ERROR(wait_all(receives[slot]));
    receives[slot].clear();
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = &scratch[slot * stride + i * chunk];
    inputs[static_cast<size_t>(index_)] = own.data() + first;
    const size_t count = std::min(chunk, own.size() - first);
    reduce_in_order<T>(inputs, count, op, into.data() + first);
    start_receives(first + kChunksInFlight * chunk, slot);
    on_chunk(first, first + count);
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Communicator::reduce_scatter(std::span<const T> values,
                                          std::span<const int64_t> begins, std::span<T> into,
                                          ReduceOp op) {
  CHECK(begins.size() == members_.size() + 1 && begins[0] >= 0);
  CHECK(begins.back() <= static_cast<int64_t>(values.size()));
  CHECK(into.size() == part_of(values, begins, index_).size());
  std::vector<PendingMessage> sends;
  absl::Status status =
      reduce_part(next_collective_tag(), values, begins, into, op, sends, [](size_t, size_t) {});
  if (status.ok()) status = wait_all(sends);
  return annotate(status, "reduce_scatter");
}

template <typename T>
absl::Status Communicator::all_reduce(std::span<T> values, ReduceOp op) {
  if (size() == 1 || values.empty()) return absl::OkStatus();
  const bool one_step = values.size_bytes() <= kOneStepBytesMax;
  if (size() > kDirectMembersMax && values.size_bytes() * members_.size() <= kTreeBytesMax) {
    return annotate(all_reduce_over_tree(values, op), "all_reduce");
  }
  return annotate(one_step ? all_reduce_whole(values, op) : all_reduce_parts(values, op),
                  "all_reduce");
}

template <typename T>
absl::Status Communicator::all_reduce_whole(std::span<T> values, ReduceOp op) {
  const std::unique_ptr<T[]> scratch(new T[values.size() * members_.size()]);
  std::vector<std::span<std::byte>> receives;
  std::vector<const T*> inputs;
  for (size_t i = 0; i < members_.size(); ++i) {
    const std::span<T> place(&scratch[i * values.size()], values.size());
    receives.push_back(std::as_writable_bytes(place));
    inputs.push_back(place.data());
  }
  inputs[static_cast<size_t>(index_)] = values.data();
  const std::vector<std::span<const std::byte>> sends(members_.size(), std::as_bytes(values));
  RETURN_IF_ERROR(exchange(next_collective_tag(), sends, receives));
  reduce_in_order<T>(inputs, values.size(), op, values.data());
  return absl::OkStatus();
}

template <typename T>
absl::Status Communicator::all_reduce_over_tree(std::span<T> values, ReduceOp op) {
  const size_t count = values.size();
  const std::unique_ptr<T[]> gathered(
      new T[count * members_.size()]);  // only its subtree's part is ever touched
  std::vector<int64_t> begins;
  std::vector<const T*> inputs;
  for (size_t i = 0; i <= members_.size(); ++i)
    begins.push_back(static_cast<int64_t>(i * values.size_bytes()));
  for (size_t i = 0; i < members_.size(); ++i) inputs.push_back(&gathered[i * count]);
  std::copy(values.begin(), values.end(), &gathered[static_cast<size_t>(index_) * count]);
  const std::span<T> all(gathered.get(), count * members_.size());
  RETURN_IF_ERROR(gather_over_tree(next_collective_tag(), std::as_writable_bytes(all), begins));
  if (index_ == 0) reduce_in_order<T>(inputs, count, op, values.data());
  return broadcast_over_tree(next_collective_tag(), 0, std::as_writable_bytes(values));
}

// The reduced chunks of a part go out while later chunks of it still come in. Receiving them into
// `values` cannot disturb our own sends from there: who sends us a reduced chunk has received our
// contribution to it before.
template <typename T>
absl::Status Communicator::all_reduce_parts(std::span<T> values, ReduceOp op) {
  const std::vector<int64_t> begins = even_begins(values.size(), size());
  const std::span<const T> contribution = values;
  const std::span<T> own = values.subspan(static_cast<size_t>(begins[static_cast<size_t>(index_)]),
                                          part_of(contribution, begins, index_).size());
  const Tag tag = next_collective_tag();
  std::vector<PendingMessage> messages;
  RETURN_IF_ERROR(
      reduce_part(tag, contribution, begins, own, op, messages, [&](size_t first, size_t last) {
        for (int i = 1; i < size(); ++i) {
          messages.push_back(
              send((index_ + i) % size(), tag, std::as_bytes(own.subspan(first, last - first))));
        }
      }));
  constexpr size_t kChunk = kChunkBytes / sizeof(T);
  for (int i = 1; i < size(); ++i) {
    const int from = (index_ + size() - i) % size();
    const auto begin = static_cast<size_t>(begins[static_cast<size_t>(from)]);
    const auto part = values.subspan(begin, part_of(contribution, begins, from).size());
    for (size_t first = 0; first < part.size(); first += kChunk) {
      const auto chunk = part.subspan(first, std::min(kChunk, part.size() - first));
      messages.push_back(receive(from, tag, std::as_writable_bytes(chunk)));
    }
  }
  std::reverse(messages.begin(), messages.end());  // receives first: sends finish meanwhile
  return wait_all(messages);
}

template <typename T>
std::span<const T> Communicator::part_of(std::span<const T> values, std::span<const int64_t> begins,
                                         int i) {
  const auto at = static_cast<size_t>(i);
  return values.subspan(static_cast<size_t>(begins[at]),
                        static_cast<size_t>(begins[at + 1] - begins[at]));
}

#define EVERMOE_INSTANTIATE(T)                                                                     \
  template absl::Status Communicator::all_reduce(std::span<T>, ReduceOp);                          \
  template absl::Status Communicator::reduce_scatter(std::span<const T>, std::span<const int64_t>, \
                                                     std::span<T>, ReduceOp);
EVERMOE_INSTANTIATE(float)
EVERMOE_INSTANTIATE(double)
EVERMOE_INSTANTIATE(int64_t)
#undef EVERMOE_INSTANTIATE

}  // namespace evermoe
