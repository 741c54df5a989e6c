#include "train/state/owner_change.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "tensor/host_bytes.h"
#include "train/state/state_transfer.h"
#include "train/state/stored_elements.h"

namespace evermoe {
namespace {

int index_among(const Communicator& movers, Rank rank) {
  for (int i = 0; i < movers.size(); ++i) {
    if (movers.rank_of(i) == rank) return i;
  }
  LOG(FATAL) << "rank " << rank << " does not take part in the move";
  return -1;
}

FlatRange overlap(FlatRange a, FlatRange b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Storage of a range of the flat layout, which is inside the shard.
at::Tensor stored(OperatorState& state, StatePart part, FlatRange range) {
  return stored_range(part_of(state, part), state.in_shard(range));
}

// What moves of one operator between this rank and others, and their memory until it has.
class Moves {
 public:
  Moves(Communicator& movers, uint32_t name) : movers_(movers), name_(name) {}

  void send(Rank to, StatePart part, at::Tensor tensor) {
    const auto& kept = sent_.emplace_back(std::make_unique<HostReadable>(tensor));
    pending_.push_back(
        movers_.start_send(index_among(movers_, to), message_name(part), kept->bytes()));
  }
  void receive(Rank from, StatePart part, at::Tensor tensor) {
    const auto& kept = received_.emplace_back(std::make_unique<HostWritable>(tensor));
    pending_.push_back(
        movers_.start_receive(index_among(movers_, from), message_name(part), kept->bytes()));
  }
  void finish() {
    for (PendingMessage& message : pending_) throw_if_error(message.wait());
    for (const auto& landed : received_) landed->commit();
  }

 private:
  uint32_t message_name(StatePart part) const {
    return name_ * static_cast<uint32_t>(kStatePartCount) + static_cast<uint32_t>(part);
  }

  Communicator& movers_;
  const uint32_t name_;
  std::vector<std::unique_ptr<HostReadable>> sent_;
  std::vector<std::unique_ptr<HostWritable>> received_;
  std::vector<PendingMessage> pending_;  // before their memory
};

}  // namespace

int64_t elements_to_move(int64_t flat_size, const std::vector<int>& from,
                         const std::vector<int>& to) {
  const auto shard = [&](const std::vector<int>& owners, size_t i) {
    return shard_range(flat_size, static_cast<int>(owners.size()), static_cast<int>(i));
  };
  int64_t elements = 0;
  for (size_t j = 0; j < to.size(); ++j) {
    elements += shard(to, j).size();
    const auto i = static_cast<size_t>(std::ranges::find(from, to[j]) - from.begin());
    if (i < from.size()) elements -= overlap(shard(from, i), shard(to, j)).size();
  }
  return elements;
}

void move_operator(Communicator& movers, uint32_t name, const OperatorSpec& spec,
                   const OwnerChange& owners, OperatorState* from, OperatorState* into) {
  const at::NoGradGuard no_grad;
  const auto shard = [&](const std::vector<Rank>& ranks, size_t owner) {
    return shard_range(spec.flat_size, static_cast<int>(ranks.size()), static_cast<int>(owner));
  };
  const Rank own = movers.rank_of(movers.index());
  Moves moves(movers, name);
  for (size_t i = 0; i < owners.before.size(); ++i) {
    for (size_t j = 0; j < owners.after.size(); ++j) {
      const FlatRange range = overlap(shard(owners.before, i), shard(owners.after, j));
      const bool sends = owners.before[i] == own, receives = owners.after[j] == own;
      if (range.size() <= 0 || (!sends && !receives)) continue;
      for (int p = 0; p < kStatePartCount; ++p) {
        const auto part = static_cast<StatePart>(p);
        if (sends && receives)
          stored(*into, part, range).copy_(stored(*from, part, range));
        else if (sends)
          moves.send(owners.after[j], part, stored(*from, part, range));
        else
          moves.receive(owners.before[i], part, stored(*into, part, range));
      }
    }
  }
  moves.finish();
}

}  // namespace evermoe
