#include "comm/ucx/ucx_transport.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "comm/channel/peer_table.h"
#include "comm/channel/progress_thread.h"
#include "comm/channel/two_channel_transport.h"
#include "comm/transport/frame.h"
#include "comm/transport/host_address.h"
#include "comm/ucx/ucx_channel.h"

namespace evermoe {
namespace {

// Between the addresses of the two workers.
constexpr char kBetween = '.';
// While others may wait for the progress of both channels, they take turns.
constexpr absl::Duration kTurn = absl::Milliseconds(1);

// As an address tells of a process.
struct UcxAddress {
  std::string messages;  // addresses of the workers, as bytes
  std::string service_messages;
  uint64_t number = 0;
};

absl::StatusOr<UcxAddress> parse_ucx_address(const std::string& text, size_t rank) {
  ASSIGN_OR_RETURN(const HostAddress address, parse_address(text));
  const std::pair<std::string, std::string> both =
      absl::StrSplit(address.detail, absl::MaxSplits(kBetween, 1));
  UcxAddress result;
  if (address.kind != "ucx" || both.second.empty() ||
      !absl::WebSafeBase64Unescape(both.first, &result.messages) ||
      !absl::WebSafeBase64Unescape(both.second, &result.service_messages)) {
    return InvalidInput(absl::StrCat("rank ", rank, " does not use UCX"));
  }
  result.number = process_number(text);
  return result;
}

// Of the two channels.
struct UcxWorkers {
  std::unique_ptr<UcxWorker> messages;
  std::unique_ptr<UcxWorker> service_messages;
};

class UcxTransport final : public TwoChannelTransport {
 public:
  UcxTransport(UcxWorkers workers, const std::string& address, Rank rank, int size, View since,
               const UcxTransportOptions& options)
      : TwoChannelTransport(rank, size, messages_, service_messages_),
        rank_(rank),
        options_(options),
        messages_(rank, size, process_number(address), options.secret, std::move(workers.messages),
                  Traffic::kMessages, progress_),
        service_messages_(rank, size, process_number(address), options.secret,
                          std::move(workers.service_messages), Traffic::kServiceMessages,
                          progress_),
        peers_(rank, size, since, address) {}
  ~UcxTransport() override { progress_.stop(); }

  // The only part of construction that can fail.
  absl::Status start() {
    RETURN_IF_ERROR(messages_.start());
    RETURN_IF_ERROR(service_messages_.start());
    return progress_.start({[this] { return messages_.drive_in_background(); },
                            [this] { return service_messages_.drive_in_background(); }});
  }

  int64_t connections_opened() const override {
    return messages_.connections_opened() + service_messages_.connections_opened();
  }
  absl::Status set_peers(const std::vector<PeerAddress>& table) override;
  void close() override;

 private:
  const Rank rank_;
  const UcxTransportOptions options_;
  ProgressThread progress_;
  UcxChannel messages_;
  UcxChannel service_messages_;
  std::atomic<bool> is_closed_ = false;
  PeerTable peers_;  // of the thread in set_peers()
};

absl::Status UcxTransport::set_peers(const std::vector<PeerAddress>& table) {
  if (is_closed_) return Cancelled("the transport is closed");
  for (size_t i = 0; i < table.size(); ++i) {
    if (Rank(static_cast<int32_t>(i)) == rank_ || table[i].address.empty() ||
        peers_.names(i, table[i].address))
      continue;
    RETURN_IF_ERROR(parse_ucx_address(table[i].address, i).status());
  }
  const PeerChanges changes = peers_.update(table);
  for (const auto& [rank, reason] : changes.dropped) vacate(rank, reason);
  if (changes.named.empty()) return absl::OkStatus();  // nobody has to be woken for it
  std::map<Rank, UcxProcess> of_messages, of_service_messages;
  for (const auto& [rank, process] : changes.named) {
    ASSIGN_OR_RETURN(const UcxAddress address,
                     parse_ucx_address(process.address, static_cast<size_t>(rank.value)));
    of_messages[rank] = {address.messages, address.number, process.since, process.is_older};
    of_service_messages[rank] = {address.service_messages, address.number, process.since,
                                 process.is_older};
  }
  messages_.name_processes(of_messages);
  service_messages_.name_processes(of_service_messages);
  return absl::OkStatus();
}

void UcxTransport::close() {
  is_closed_ = true;
  progress_.stop();
  messages_.say_goodbye();
  service_messages_.say_goodbye();
  const Deadline deadline(options_.close_flush_max);
  for (bool are_flushed = false; !are_flushed && !deadline.passed();) {
    are_flushed = messages_.flush(Deadline(std::min(kTurn, deadline.left())));
    are_flushed =
        service_messages_.flush(Deadline(std::min(kTurn, deadline.left()))) && are_flushed;
  }
  messages_.finish();
  service_messages_.finish();
}

class UcxListener final : public TransportListener {
 public:
  UcxListener(UcxWorkers workers, std::string address, const UcxTransportOptions& options)
      : options_(options), address_(std::move(address)), workers_(std::move(workers)) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> open(Rank rank, int size, View since) override {
    CHECK(workers_.messages) << "a listener opens one transport";
    RETURN_IF_ERROR(check_ranks(size));
    auto transport =
        std::make_unique<UcxTransport>(std::move(workers_), address_, rank, size, since, options_);
    RETURN_IF_ERROR(transport->start());
    return transport;
  }

 private:
  const UcxTransportOptions options_;
  const std::string address_;
  UcxWorkers workers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TransportListener>> listen_ucx(const UcxTransportOptions& options) {
  if (options.secret.empty()) return InvalidInput("UCX needs the secret of the job");
  ASSIGN_OR_RETURN(const auto context, UcxContext::create(options));
  UcxWorkers workers;
  ASSIGN_OR_RETURN(workers.messages, UcxWorker::create(context));
  ASSIGN_OR_RETURN(workers.service_messages, UcxWorker::create(context));
  ASSIGN_OR_RETURN(const std::string messages, workers.messages->address());
  ASSIGN_OR_RETURN(const std::string service_messages, workers.service_messages->address());
  const std::string detail =
      absl::StrCat(absl::WebSafeBase64Escape(messages), std::string(1, kBetween),
                   absl::WebSafeBase64Escape(service_messages));
  return std::make_unique<UcxListener>(std::move(workers),
                                       to_string({"ucx", this_machine(), detail}), options);
}

}  // namespace evermoe
