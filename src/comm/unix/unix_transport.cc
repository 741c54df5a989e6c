#include "comm/unix/unix_transport.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/channel/peer_table.h"
#include "comm/channel/progress_thread.h"
#include "comm/channel/two_channel_transport.h"
#include "comm/transport/host_address.h"
#include "comm/unix/unix_channel.h"
#include "comm/unix/unix_connect.h"
#include "comm/unix/unix_connector.h"

namespace evermoe {
namespace {

std::string unix_address(const std::string& name) {
  return to_string({"unix", this_machine(), name});
}

absl::StatusOr<std::string> name_in(const std::string& text, size_t rank) {
  ASSIGN_OR_RETURN(const HostAddress address, parse_address(text));
  if (address.kind != "unix" || address.machine != this_machine()) {
    return InvalidInput(absl::StrCat("rank ", rank, " at ", text, " is not on this machine"));
  }
  return address.detail;
}

class UnixTransport final : public TwoChannelTransport {
 public:
  UnixTransport(ListeningSocket listening, Rank rank, int size, View since,
                const UnixTransportOptions& options);
  ~UnixTransport() override { progress_.stop(); }

  // The only part of construction that can fail.
  absl::Status start();

  int64_t connections_opened() const override { return connector_.calls_answered(); }
  absl::Status set_peers(const std::vector<PeerAddress>& table) override;
  void close() override;

 private:
  void install(Rank rank, UnixStreams streams);

  const Rank rank_;
  const UnixTransportOptions options_;
  ProgressThread progress_;
  UnixChannel messages_;
  UnixChannel service_messages_;
  UnixConnector connector_;
  std::atomic<bool> is_closed_ = false;
  PeerTable peers_;  // of the thread in set_peers()
};

UnixTransport::UnixTransport(ListeningSocket listening, Rank rank, int size, View since,
                             const UnixTransportOptions& options)
    : TwoChannelTransport(rank, size, messages_, service_messages_),
      rank_(rank),
      options_(options),
      messages_(rank, size, Traffic::kMessages, progress_,
                [this](Rank peer) { connector_.want(peer); }),
      service_messages_(rank, size, Traffic::kServiceMessages, progress_,
                        [this](Rank peer) { connector_.want(peer); }),
      connector_(std::move(listening), rank, size, progress_,
                 {.connected = [this](Rank peer,
                                      UnixStreams streams) { install(peer, std::move(streams)); },
                  .failed = [this](Rank peer, const absl::Status& why) { vacate(peer, why); }}),
      peers_(rank, size, since, unix_address(connector_.name())) {}

absl::Status UnixTransport::start() {
  RETURN_IF_ERROR(messages_.start());
  RETURN_IF_ERROR(service_messages_.start());
  RETURN_IF_ERROR(connector_.start());
  return progress_.start({[this] { return messages_.drive_in_background(); },
                          [this] { return service_messages_.drive_in_background(); },
                          [this] { return connector_.drive(); }});
}

absl::Status UnixTransport::set_peers(const std::vector<PeerAddress>& table) {
  if (is_closed_) return Cancelled("the transport is closed");
  for (size_t i = 0; i < table.size(); ++i) {
    if (Rank(static_cast<int32_t>(i)) == rank_ || table[i].address.empty() ||
        peers_.names(i, table[i].address))
      continue;
    RETURN_IF_ERROR(name_in(table[i].address, i).status());
  }
  const PeerChanges changes = peers_.update(table);
  for (const auto& [rank, reason] : changes.dropped) {
    connector_.forget(rank);
    vacate(rank, reason);
  }
  // In this order: the connector may find the process dead at once.
  for (const auto& [rank, process] : changes.named) {
    messages_.name_process(rank);
    service_messages_.name_process(rank);
    connector_.name_process(
        rank, {parse_address(process.address)->detail, process.since, process.is_older});
  }
  return absl::OkStatus();
}

void UnixTransport::install(Rank rank, UnixStreams streams) {
  for (const absl::Status& status :
       {messages_.install(rank, std::move(streams.messages), options_.socket_buffer_bytes),
        service_messages_.install(rank, std::move(streams.service_messages),
                                  options_.socket_buffer_bytes)}) {
    if (!status.ok()) vacate(rank, status);
  }
}

void UnixTransport::close() {
  is_closed_ = true;
  progress_.stop();
  connector_.close();
  messages_.say_goodbye();
  service_messages_.say_goodbye();
  const Deadline deadline(options_.close_flush_max);
  messages_.finish(deadline);
  service_messages_.finish(deadline);
}

class UnixListener final : public TransportListener {
 public:
  UnixListener(ListeningSocket listening, const UnixTransportOptions& options)
      : options_(options),
        address_(unix_address(listening.name)),
        listening_(std::move(listening)) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> open(Rank rank, int size, View since) override {
    CHECK(listening_.socket) << "a listener opens one transport";
    RETURN_IF_ERROR(check_ranks(size));
    auto transport =
        std::make_unique<UnixTransport>(std::move(listening_), rank, size, since, options_);
    RETURN_IF_ERROR(transport->start());
    return transport;
  }

 private:
  const UnixTransportOptions options_;
  const std::string address_;
  ListeningSocket listening_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TransportListener>> listen_unix(
    const UnixTransportOptions& options) {
  ASSIGN_OR_RETURN(ListeningSocket listening, listen_on_random_name());
  return std::make_unique<UnixListener>(std::move(listening), options);
}

}  // namespace evermoe
