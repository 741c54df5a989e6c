// For tests: processes that replace each other, as transports of one process.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/transport/rank_threads_testing.h"
#include "comm/transport/transport_testing.h"

namespace evermoe {

inline bool accuses(const absl::Status& status, int rank) {
  return absl::IsUnavailable(status) && accused_rank(status) == Rank(rank);
}

// The processes that play the ranks now.
class Cast {
 public:
  using Listen = std::function<std::unique_ptr<TransportListener>()>;
  // A table as the process of that rank is given it.
  using SeenBy = std::function<std::vector<PeerAddress>(std::vector<PeerAddress>, Rank)>;

  Cast(
      Listen listen, int size, SeenBy seen_by = [](auto table, Rank) { return table; })
      : listen_(std::move(listen)),
        seen_by_(std::move(seen_by)),
        transports_(static_cast<size_t>(size)),
        table_(static_cast<size_t>(size)) {}
  Cast(TransportKind kind, int size) : Cast([kind] { return listen(kind); }, size) {}

  // A new process takes the rank's place in the table; what played it before is gone already.
  void enter(int rank, uint32_t since) {
    auto listener = listen_();
    table_[static_cast<size_t>(rank)] = {listener->address(), View(since)};
    auto transport = listener->open(Rank(rank), size(), View(since));
    CHECK_OK(transport.status());
    transports_[static_cast<size_t>(rank)] = *std::move(transport);
  }
  // Without a goodbye.
  void die(int rank) { transports_[static_cast<size_t>(rank)].reset(); }

  int size() const { return static_cast<int>(table_.size()); }
  Transport& operator[](int rank) { return *transports_[static_cast<size_t>(rank)]; }
  std::vector<PeerAddress>& table() { return table_; }
  // The process of a rank is told the table; or everybody who is there is.
  void tell(int rank) { CHECK_OK((*this)[rank].set_peers(seen_by_(table_, Rank(rank)))); }
  void tell_all() {
    for (int rank = 0; rank < size(); ++rank) {
      if (transports_[static_cast<size_t>(rank)]) tell(rank);
    }
  }

  // Every transport in a thread of its own.
  void each(const RankBody& body) {
    std::vector<std::thread> threads;
    for (const auto& transport : transports_) {
      if (transport) threads.emplace_back([&] { body(*transport); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const Listen listen_;
  const SeenBy seen_by_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<PeerAddress> table_;
};

// Everybody reduces and sends everybody a service message in this view.
inline void expect_traffic(Cast& cast, uint32_t view) {
  cast.each([&](Transport& transport) {
    std::vector<Rank> all;
    for (int i = 0; i < cast.size(); ++i) all.push_back(Rank(i));
    Communicator world(transport, all, {View(view), 0, kPatience});
    std::vector<int64_t> values(10'000, transport.rank().value);
    EXPECT_TRUE(world.all_reduce<int64_t>(values, ReduceOp::kSum).ok());
    EXPECT_EQ(values.back(), cast.size() * (cast.size() - 1) / 2);
    for (const Rank other : all) {
      if (other != transport.rank()) {
        EXPECT_TRUE(send(transport, other.value, service_tag(view, view),
                         bytes_of(300, transport.rank().value))
                        .ok());
      }
    }
    for (int i = 1; i < cast.size(); ++i) {
      const auto service_message = transport.receive_service_message(kPatience);
      ASSERT_TRUE(service_message.ok()) << service_message.status();
      EXPECT_TRUE(is_service_message(service_message, service_message->from.value,
                                     service_tag(view, view), 300, service_message->from.value));
    }
    EXPECT_TRUE(world.barrier().ok());
  });
}

}  // namespace evermoe
