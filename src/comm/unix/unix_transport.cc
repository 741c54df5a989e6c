#include "comm/unix/unix_transport.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/transport/host_address.h"
#include "comm/transport/meeting_plan.h"
#include "comm/transport/progress_thread.h"
#include "comm/transport/two_channel_transport.h"
#include "comm/unix/unix_channel.h"
#include "comm/unix/unix_connect.h"
#include "comm/unix/unix_meeting.h"

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

  absl::Status meet(const std::vector<PeerAddress>& table, absl::Duration timeout) override;
  void close() override;

 private:
  absl::Status install(Rank rank, const WantedProcess& process, UnixStreams streams);
  enum class Left { kIsFine, kIsDead };
  absl::Status find_dead(Left left);

  const Rank rank_;
  const UnixTransportOptions options_;
  ProgressThread progress_;
  UnixChannel messages_;
  UnixChannel service_messages_;
  UnixMeeting meeting_;
  MetProcesses met_;  // of the thread in meet()
};

UnixTransport::UnixTransport(ListeningSocket listening, Rank rank, int size, View since,
                             const UnixTransportOptions& options)
    : TwoChannelTransport(rank, size, messages_, service_messages_),
      rank_(rank),
      options_(options),
      messages_(rank, size, UnixChannel::Traffic::kMessages, progress_),
      service_messages_(rank, size, UnixChannel::Traffic::kService, progress_),
      meeting_(std::move(listening), rank, size),
      met_(rank, size, since, unix_address(meeting_.name())) {}

absl::Status UnixTransport::start() {
  RETURN_IF_ERROR(messages_.start());
  RETURN_IF_ERROR(service_messages_.start());
  RETURN_IF_ERROR(meeting_.start());
  return progress_.start({[this] { return messages_.drive_in_background(); },
                          [this] { return service_messages_.drive_in_background(); }});
}

absl::Status UnixTransport::meet(const std::vector<PeerAddress>& table, absl::Duration timeout) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (Rank(static_cast<int32_t>(i)) == rank_ || table[i].address.empty()) continue;
    RETURN_IF_ERROR(name_in(table[i].address, i).status());
  }
  const MeetingPlan plan = met_.plan(table);
  vacate_dropped(plan);
  RETURN_IF_ERROR(find_dead(Left::kIsDead));
  std::map<Rank, UnixProcess> missing;
  for (const auto& [rank, process] : plan.missing) {
    missing[rank] = {parse_address(process.address)->detail, process.since, process.is_older};
  }
  RETURN_IF_ERROR(
      meeting_.run(std::move(missing), Deadline(timeout), [&](Rank rank, UnixStreams streams) {
        return install(rank, plan.missing.at(rank), std::move(streams));
      }));
  return find_dead(Left::kIsFine);
}

absl::Status UnixTransport::install(Rank rank, const WantedProcess& process, UnixStreams streams) {
  RETURN_IF_ERROR(
      messages_.install(rank, std::move(streams.messages), options_.socket_buffer_bytes));
  RETURN_IF_ERROR(service_messages_.install(rank, std::move(streams.service_messages),
                                            options_.socket_buffer_bytes));
  met_.add(rank, process);
  return absl::OkStatus();
}

// Of those that have been met. Who has left in peace cannot be met any more; but who meets and then
// leaves at once has been met.
absl::Status UnixTransport::find_dead(Left left) {
  for (int32_t i = 0; i < size(); ++i) {
    const Rank rank(i);
    if (!met_.contains(rank)) continue;
    const absl::Status state = messages_.state_of(rank);
    if (state.ok() || (left == Left::kIsFine && absl::IsCancelled(state))) continue;
    return PeerLost(rank, std::string(state.message()));
  }
  return absl::OkStatus();
}

void UnixTransport::close() {
  meeting_.close();
  progress_.stop();
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
