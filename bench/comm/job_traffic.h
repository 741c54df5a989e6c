// For benchmarks: whom the processes of a job talk to in a step. Few bytes: it is the pairs that
// count, because each of them needs a connection.
//
// Ranks are numbered stage by stage, as in Topology. In a step each of them
//   exchanges messages with all lanes of its stage (tokens, gradients),
//   and with the same lane of the stages before and after its own (activations, their gradients),
//   sends a copy to those who keep its copies, in the next two stages (service messages),
//   and takes part in an all_reduce of all (the verdict): with each other up to 32 ranks, over a
//   tree beyond (communicator.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/communicator.h"
#include "comm/reductions.h"

namespace evermoe {

struct JobShape {
  int stages = 1;
  int lanes = 1;
  int ranks() const { return stages * lanes; }
  int stage_of(int rank) const { return rank / lanes; }
  friend bool operator==(const JobShape&, const JobShape&) = default;
};

// Who keeps the copies of a rank.
inline std::set<int> holders_of(const JobShape& shape, int rank) {
  std::set<int> holders;
  for (const int stages : {1, 2}) holders.insert((rank + stages * shape.lanes) % shape.ranks());
  holders.erase(rank);
  return holders;
}

using RankPairs = std::set<std::pair<int, int>>;

// That exchange messages in a step, and service messages.
struct JobPairs {
  RankPairs messages, service_messages;
  // Transports have a connection for each pair, or UCX for each pair and kind.
  int64_t connections(bool of_each_kind) const {
    RankPairs all = messages;
    all.insert(service_messages.begin(), service_messages.end());
    return std::ssize(all) +
           (of_each_kind ? std::ssize(messages) + std::ssize(service_messages) - std::ssize(all)
                         : 0);
  }
  JobPairs with(int rank) const {
    JobPairs result = *this;
    const auto is_without = [rank](const auto& pair) {
      return pair.first != rank && pair.second != rank;
    };
    std::erase_if(result.messages, is_without);
    std::erase_if(result.service_messages, is_without);
    return result;
  }
};

inline JobPairs pairs_of(const JobShape& shape) {
  JobPairs pairs;
  const int ranks = shape.ranks();
  const bool is_direct = ranks <= kDirectMembersMax;
  for (int rank = 0; rank < ranks; ++rank) {
    const int stage_end = (shape.stage_of(rank) + 1) * shape.lanes;
    for (int other = rank + 1; other < (is_direct ? ranks : stage_end); ++other)
      pairs.messages.emplace(rank, other);
    if (rank + shape.lanes < ranks) pairs.messages.emplace(rank, rank + shape.lanes);
    if (!is_direct && rank > 0) pairs.messages.emplace(rank & (rank - 1), rank);  // its parent
    for (const int holder : holders_of(shape, rank))
      pairs.service_messages.insert(std::minmax(rank, holder));
  }
  return pairs;
}

// One rank's part, in one view.
class JobTraffic {
 public:
  JobTraffic(Transport& transport, const JobShape& shape, View view)
      : transport_(transport),
        shape_(shape),
        own_(transport.rank().value),
        view_(view),
        world_(transport, ranks_from(0, shape.ranks()), {.view = view, .group = kWorld}),
        stage_(transport, ranks_from(shape.stage_of(own_) * shape.lanes, shape.lanes),
               {.view = view, .group = kStage}) {}

  void step() {
    exchange_in_stage();
    exchange_with_neighbours();
    send_copies();
    std::array<double, 4> verdict{};
    CHECK_OK(world_.all_reduce<double>(verdict, ReduceOp::kSum));
  }

 private:
  static constexpr uint16_t kWorld = 0, kStage = 1;
  static constexpr size_t kBytes = 256;

  static std::vector<Rank> ranks_from(int first, int count) {
    std::vector<Rank> ranks;
    for (int i = 0; i < count; ++i) ranks.push_back(Rank(first + i));
    return ranks;
  }

  void exchange_in_stage() {
    const auto lanes = static_cast<size_t>(shape_.lanes);
    std::vector<std::array<std::byte, kBytes>> received(lanes);
    const std::vector<std::span<const std::byte>> sends(lanes, bytes_);
    CHECK_OK(stage_.all_to_all(
        sends, std::vector<std::span<std::byte>>(received.begin(), received.end())));
  }

  void exchange_with_neighbours() {
    std::vector<std::array<std::byte, kBytes>> received(2);
    std::vector<PendingMessage> messages;
    for (const int other : {own_ - shape_.lanes, own_ + shape_.lanes}) {
      if (other < 0 || other >= shape_.ranks()) continue;
      messages.push_back(world_.start_receive(other, 1, received[other < own_ ? 0 : 1]));
      messages.push_back(world_.start_send(other, 1, bytes_));
    }
    for (PendingMessage& message : messages) CHECK_OK(message.wait());
  }

  void send_copies() {
    const Tag tag{view_, kServiceGroup, 1};
    std::vector<std::unique_ptr<TransportOperation>> sends;
    for (const int holder : holders_of(shape_, own_))
      sends.push_back(transport_.start_send(Rank(holder), tag, bytes_));
    for (auto& send : sends) CHECK_OK(transport_.wait(std::move(send), kPatience));
    // As many ranks have this one for a holder.
    for (size_t i = sends.size(); i > 0; --i)
      CHECK_OK(transport_.receive_service_message(kPatience).status());
  }

  static constexpr absl::Duration kPatience = absl::Seconds(60);
  Transport& transport_;
  const JobShape shape_;
  const int own_;
  const View view_;
  Communicator world_, stage_;
  std::array<std::byte, kBytes> bytes_{};
};

}  // namespace evermoe
