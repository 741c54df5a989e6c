// For tests: a simulated network whose membership the test decides, and numbers as messages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "comm/simulated/simulated_network.h"

namespace evermoe {

inline constexpr absl::Duration kForEver = absl::InfiniteDuration();

inline Tag tag(uint32_t purpose, uint32_t view = 1, uint16_t group = 0) {
  return {View(view), group, purpose};
}
inline Tag service_tag(uint32_t purpose = 0) { return {View(0), kServiceGroup, purpose}; }

inline absl::Status send(Transport& transport, int to, Tag tag, std::span<const std::byte> bytes,
                         absl::Duration timeout = kForEver) {
  return transport.wait(transport.start_send(Rank(to), tag, bytes), timeout);
}

inline absl::Status receive(Transport& transport, int from, Tag tag, std::span<std::byte> into,
                            absl::Duration timeout = kForEver) {
  return transport.wait(transport.start_receive(Rank(from), tag, into), timeout);
}

inline absl::Status send_number(Transport& transport, int to, Tag tag, int64_t number) {
  return send(transport, to, tag, std::as_bytes(std::span(&number, 1)));
}

inline absl::StatusOr<int64_t> receive_number(Transport& transport, int from, Tag tag,
                                              absl::Duration timeout = kForEver) {
  int64_t number = 0;
  RETURN_IF_ERROR(
      receive(transport, from, tag, std::as_writable_bytes(std::span(&number, 1)), timeout));
  return number;
}

inline int64_t number_in(const ServiceMessage& service_message) {
  CHECK(service_message.size == sizeof(int64_t));
  int64_t number;
  std::copy(service_message.bytes.get(), service_message.bytes.get() + service_message.size,
            reinterpret_cast<std::byte*>(&number));
  return number;
}

inline bool accuses(const absl::Status& status, int rank) {
  return absl::IsUnavailable(status) && accused_rank(status) == Rank(rank);
}

// A network whose membership the test decides: table() names the processes started last. Each rank
// is on a machine of its number.
class SimulatedNetworkTest : public testing::Test {
 protected:
  void make(int ranks, SimulatedNetworkOptions options = {}) {
    network_ = std::make_unique<SimulatedNetwork>(ranks, options);
    table_.assign(static_cast<size_t>(ranks), {});
    process_.assign(static_cast<size_t>(ranks), {});
  }
  ProcessNumber start(int rank, std::vector<SimulatedNetwork::Thread> threads, uint32_t since = 1) {
    const ProcessNumber process =
        network_->start(Rank(rank), View(since), std::move(threads), Machine(rank));
    table_[static_cast<size_t>(rank)] = {SimulatedNetwork::address(process), View(since)};
    return process_[static_cast<size_t>(rank)] = process;
  }
  void know_all(Transport& transport) { CHECK_OK(transport.set_peers(table_)); }
  // Returns when all have called it and are connected with each other.
  void connect_with_all(Transport& transport) {
    know_all(transport);
    const Tag hello = tag(0, 1, 4000);
    for (int to = 0; to < transport.size(); ++to) EXPECT_TRUE(send(transport, to, hello, {}).ok());
    for (int from = 0; from < transport.size(); ++from)
      EXPECT_TRUE(receive(transport, from, hello, {}).ok());
  }
  // Rank i runs bodies[i] once it is connected with all.
  void start_connected(std::vector<SimulatedNetwork::Thread> bodies) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      start(static_cast<int>(i), {[this, body = std::move(bodies[i])](Transport& transport) {
              connect_with_all(transport);
              body(transport);
            }});
    }
  }
  void run() { EXPECT_TRUE(network_->run()) << network_->waiting(); }

  std::unique_ptr<SimulatedNetwork> network_;
  std::vector<PeerAddress> table_;
  std::vector<ProcessNumber> process_;
};

}  // namespace evermoe
