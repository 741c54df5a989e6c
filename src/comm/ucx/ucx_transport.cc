#include "comm/ucx/ucx_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "comm/transport/frame.h"
#include "comm/transport/host_address.h"
#include "comm/transport/meeting_plan.h"
#include "comm/transport/progress_thread.h"
#include "comm/transport/two_channel_transport.h"
#include "comm/ucx/ucx_channel.h"

namespace evermoe {
namespace {

// Between the addresses of the two workers.
constexpr char kBetween = '.';
// While others may wait for the progress of both channels, they take turns, longer and longer ones.
constexpr absl::Duration kTurnMin = absl::Milliseconds(1);
constexpr absl::Duration kTurnMax = absl::Milliseconds(20);

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
        messages_(rank, size, process_number(address), std::move(workers.messages),
                  UcxChannel::Traffic::kMessages, progress_),
        service_messages_(rank, size, process_number(address), std::move(workers.service_messages),
                          UcxChannel::Traffic::kService, progress_),
        met_(rank, size, since, address) {}
  ~UcxTransport() override { progress_.stop(); }

  // The only part of construction that can fail.
  absl::Status start() {
    RETURN_IF_ERROR(messages_.start());
    RETURN_IF_ERROR(service_messages_.start());
    return progress_.start({[this] { return messages_.drive_in_background(); },
                            [this] { return service_messages_.drive_in_background(); }});
  }

  absl::Status meet(const std::vector<PeerAddress>& table, absl::Duration timeout) override;
  void close() override;

 private:
  absl::Status find_dead();
  absl::Status greet(Rank rank, const WantedProcess& process);
  absl::Status await_greetings(const Deadline& deadline);

  const Rank rank_;
  const UcxTransportOptions options_;
  ProgressThread progress_;
  UcxChannel messages_;
  UcxChannel service_messages_;
  MetProcesses met_;  // greeted ones; of the thread in meet()
};

absl::Status UcxTransport::meet(const std::vector<PeerAddress>& table, absl::Duration timeout) {
  const Deadline deadline(timeout);
  for (size_t i = 0; i < table.size(); ++i) {
    if (Rank(static_cast<int32_t>(i)) == rank_ || table[i].address.empty()) continue;
    RETURN_IF_ERROR(parse_ucx_address(table[i].address, i).status());
  }
  const MeetingPlan plan = met_.plan(table);
  vacate_dropped(plan);
  RETURN_IF_ERROR(find_dead());
  for (const auto& [rank, process] : plan.missing) RETURN_IF_ERROR(greet(rank, process));
  return await_greetings(deadline);
}

// Who has left in peace cannot be met any more.
absl::Status UcxTransport::find_dead() {
  for (int32_t i = 0; i < size(); ++i) {
    if (!met_.contains(Rank(i))) continue;
    for (UcxChannel* const channel : {&messages_, &service_messages_}) {
      const absl::Status state = channel->state_of(Rank(i));
      if (!state.ok()) return PeerLost(Rank(i), std::string(state.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status UcxTransport::greet(Rank rank, const WantedProcess& process) {
  ASSIGN_OR_RETURN(const UcxAddress address,
                   parse_ucx_address(process.address, static_cast<size_t>(rank.value)));
  met_.add(rank, process);  // also if it is dead
  RETURN_IF_ERROR(messages_.greet(rank, {address.messages, address.number, process.since}));
  return service_messages_.greet(rank, {address.service_messages, address.number, process.since});
}

absl::Status UcxTransport::await_greetings(const Deadline& deadline) {
  for (absl::Duration turn = kTurnMin;; turn = std::min(2 * turn, kTurnMax)) {
    const absl::Status messages =
        messages_.await_greetings(Deadline(std::min(turn, deadline.left())));
    if (!messages.ok() && !absl::IsDeadlineExceeded(messages)) return messages;
    const absl::Status service_messages =
        service_messages_.await_greetings(Deadline(std::min(turn, deadline.left())));
    if (!service_messages.ok() && !absl::IsDeadlineExceeded(service_messages))
      return service_messages;
    if (messages.ok() && service_messages.ok()) return absl::OkStatus();
    if (deadline.passed()) return messages.ok() ? service_messages : messages;
  }
}

void UcxTransport::close() {
  progress_.stop();
  messages_.say_goodbye();
  service_messages_.say_goodbye();
  const Deadline deadline(options_.close_flush_max);
  for (bool are_flushed = false; !are_flushed && !deadline.passed();) {
    are_flushed = messages_.flush(Deadline(std::min(kTurnMin, deadline.left())));
    are_flushed =
        service_messages_.flush(Deadline(std::min(kTurnMin, deadline.left()))) && are_flushed;
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
