#include "comm/in_process/in_process_transport.h"

#include "base/check.h"
#include "base/log.h"

namespace evermoe {

// Counts the calls of one rank on their way to the network.
class InProcessCluster::RankTransport final : public Transport {
 public:
  RankTransport(InProcessCluster& cluster, Transport& inner) : cluster_(cluster), inner_(inner) {}

  Rank rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override {
    return counted().start_send(to, tag, bytes);
  }
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override {
    return counted().start_receive(from, tag, into);
  }
  absl::Status wait(std::unique_ptr<TransportOperation> operation,
                    absl::Duration timeout) override {
    return counted().wait(std::move(operation), timeout);
  }
  bool done(TransportOperation& operation) override { return counted().done(operation); }
  int64_t connections_opened() const override { return inner_.connections_opened(); }
  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout) override {
    return counted().receive_service_message(timeout);
  }
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override {
    counted().revoke(groups, view, std::move(reason));
  }
  absl::Status set_peers(const std::vector<PeerAddress>& table) override {
    return counted().set_peers(table);
  }
  void connect(Rank peer, Traffic traffic) override { counted().connect(peer, traffic); }
  bool is_connected(Rank peer, Traffic traffic) const override {
    return inner_.is_connected(peer, traffic);
  }
  void cut(Rank peer) override { counted().cut(peer); }
  void close() override { counted().close(); }

 private:
  Transport& counted() {
    cluster_.count_call(inner_.rank());
    return inner_;
  }

  InProcessCluster& cluster_;
  Transport& inner_;
};

InProcessCluster::InProcessCluster(int size, InProcessOptions options)
    : options_(std::move(options)),
      network_(size, {.seed = options_.seed,
                      .delay_max = options_.delay_max,
                      .discovery_max = options_.discovery_max,
                      .eager_bytes_max = options_.eager_bytes_max,
                      .switch_at_every_call = options_.switch_at_every_call,
                      .time_max = absl::InfiniteDuration(),
                      .one_core = false}),  // its bodies compute
      table_(static_cast<size_t>(size)),
      calls_(static_cast<size_t>(size)) {}

void InProcessCluster::run(const Body& body) {
  for (size_t i = 0; i < table_.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    processes_.push_back(network_.start(rank, View(0), {[this, &body, rank](Transport& transport) {
                                          CHECK_OK(transport.set_peers(table_));
                                          RankTransport counted(*this, transport);
                                          body(rank, counted);
                                        }}));
    table_[i] = {SimulatedNetwork::address(processes_.back()), View(0)};
  }
  if (!network_.run()) log_error("a simulated job cannot go on: " + network_.waiting());
}

void InProcessCluster::count_call(Rank rank) {
  const int64_t call = calls_[static_cast<size_t>(rank.value)]++;
  for (const InProcessOptions::Kill& kill : options_.kills) {
    if (kill.rank == rank && kill.at_call == call)
      network_.kill(processes_[static_cast<size_t>(rank.value)]);
  }
}

}  // namespace evermoe
