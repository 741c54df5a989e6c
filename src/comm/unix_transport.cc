#include "comm/unix_transport.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/host_address.h"
#include "comm/unix_connect.h"
#include "comm/unix_lane.h"
#include "comm/unix_meeting.h"

namespace evermoe {
namespace {

std::string unix_address(const std::string& name) { return to_string({"unix", this_machine(), name}); }

absl::StatusOr<std::string> name_in(const PeerAddress& entry, size_t rank) {
  ASSIGN_OR_RETURN(const HostAddress address, parse_address(entry.address));
  if (address.kind != "unix" || address.machine != this_machine()) {
    return InvalidInput(absl::StrCat("rank ", rank, " at ", entry.address, " is not on this machine"));
  }
  return address.detail;
}

class UnixTransport final : public Transport {
 public:
  UnixTransport(ListeningSocket listening, Rank rank, int size, View since, const UnixTransportOptions& options);

  // The only part of construction that can fail.
  absl::Status start();

  Rank rank() const override { return rank_; }
  int size() const override { return static_cast<int>(met_.size()); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag, std::span<const std::byte> bytes) override {
    return lane_of(tag).start_send(to, tag, bytes);
  }
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag, std::span<std::byte> into) override {
    CHECK(tag.group != kLetterGroup) << "letters come by receive_letter()";
    return messages_.start_receive(from, tag, into);
  }
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) override {
    UnixLane& lane = lane_of(static_cast<const PendingOperation&>(*operation).tag);
    return lane.wait(std::move(operation), timeout);
  }
  bool done(TransportOperation& operation) override {
    return lane_of(static_cast<const PendingOperation&>(operation).tag).done(operation);
  }
  absl::StatusOr<Letter> receive_letter(absl::Duration timeout) override { return letters_.receive_letter(timeout); }
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override { messages_.revoke(groups, view, reason); }
  absl::Status meet(const std::vector<PeerAddress>& table, absl::Duration timeout) override;
  void cut(Rank peer) override {
    for (UnixLane* const lane : {&messages_, &letters_}) {
      lane->vacate(peer, PeerLost(peer, absl::StrCat("the connection with rank ", peer.value, " was cut")));
    }
  }
  void close() override;

 private:
  UnixLane& lane_of(const Tag& tag) { return tag.group == kLetterGroup ? letters_ : messages_; }
  absl::StatusOr<std::map<Rank, UnixProcess>> wanted_in(const std::vector<PeerAddress>& table);
  void leave_former(const std::map<Rank, UnixProcess>& wanted);
  void vacate(Rank rank, const absl::Status& reason);
  absl::Status install(Rank rank, const UnixProcess& process, UnixStreams streams);
  enum class Left { kIsFine, kIsDead };
  absl::Status find_dead(Left left);

  const Rank rank_;
  const UnixTransportOptions options_;
  UnixLane messages_;
  UnixLane letters_;
  UnixMeeting meeting_;
  // Of the thread in meet():
  View since_;
  std::vector<std::optional<UnixProcess>> met_;  // by rank: who is or was connected
};

UnixTransport::UnixTransport(ListeningSocket listening, Rank rank, int size, View since,
                             const UnixTransportOptions& options)
    : rank_(rank),
      options_(options),
      messages_(rank, size, UnixLane::Traffic::kMessages),
      letters_(rank, size, UnixLane::Traffic::kLetters),
      meeting_(std::move(listening), rank, size),
      since_(since),
      met_(static_cast<size_t>(size)) {}

absl::Status UnixTransport::start() {
  RETURN_IF_ERROR(messages_.start());
  RETURN_IF_ERROR(letters_.start());
  return meeting_.start();
}

absl::Status UnixTransport::meet(const std::vector<PeerAddress>& table, absl::Duration timeout) {
  CHECK(table.size() == met_.size()) << "a table of " << table.size() << " for " << met_.size() << " ranks";
  ASSIGN_OR_RETURN(auto missing, wanted_in(table));
  leave_former(missing);
  std::erase_if(missing, [this](const auto& entry) { return met_[static_cast<size_t>(entry.first.value)].has_value(); });
  RETURN_IF_ERROR(find_dead(Left::kIsDead));
  const std::map<Rank, UnixProcess> wanted = missing;
  RETURN_IF_ERROR(meeting_.run(std::move(missing), Deadline(timeout), [&](Rank rank, UnixStreams streams) {
    return install(rank, wanted.at(rank), std::move(streams));
  }));
  return find_dead(Left::kIsFine);
}

absl::StatusOr<std::map<Rank, UnixProcess>> UnixTransport::wanted_in(const std::vector<PeerAddress>& table) {
  const PeerAddress& own = table[static_cast<size_t>(rank_.value)];
  if (own.address == unix_address(meeting_.name())) since_ = std::max(since_, own.since);
  std::map<Rank, UnixProcess> wanted;
  for (size_t i = 0; i < table.size(); ++i) {
    const Rank rank(static_cast<int32_t>(i));
    const PeerAddress& entry = table[i];
    if (rank == rank_ || entry.address.empty()) continue;
    ASSIGN_OR_RETURN(std::string name, name_in(entry, i));
    const bool is_older = entry.since != since_ ? entry.since < since_ : rank < rank_;
    wanted[rank] = {std::move(name), std::max(entry.since, since_), is_older};
  }
  return wanted;
}

void UnixTransport::leave_former(const std::map<Rank, UnixProcess>& wanted) {
  for (int32_t i = 0; i < size(); ++i) {
    std::optional<UnixProcess>& met = met_[static_cast<size_t>(i)];
    const auto next = wanted.find(Rank(i));
    if (next == wanted.end()) {
      if (Rank(i) != rank_) vacate(Rank(i), PeerLost(Rank(i), absl::StrCat("nobody plays rank ", i)));
    } else if (met && *met != next->second) {
      vacate(Rank(i), PeerLost(Rank(i), absl::StrCat("another process plays rank ", i, " and has not been met yet")));
    }
  }
}

void UnixTransport::vacate(Rank rank, const absl::Status& reason) {
  met_[static_cast<size_t>(rank.value)].reset();
  messages_.vacate(rank, reason);
  letters_.vacate(rank, reason);
}

absl::Status UnixTransport::install(Rank rank, const UnixProcess& process, UnixStreams streams) {
  RETURN_IF_ERROR(messages_.install(rank, std::move(streams.messages), options_.socket_buffer_bytes));
  RETURN_IF_ERROR(letters_.install(rank, std::move(streams.letters), options_.socket_buffer_bytes));
  met_[static_cast<size_t>(rank.value)] = process;
  return absl::OkStatus();
}

// Of those that have been met. Who has left in peace cannot be met any more; but who meets and then
// leaves at once has been met.
absl::Status UnixTransport::find_dead(Left left) {
  for (size_t i = 0; i < met_.size(); ++i) {
    if (!met_[i]) continue;
    const Rank rank(static_cast<int32_t>(i));
    const absl::Status state = messages_.state_of(rank);
    if (state.ok() || (left == Left::kIsFine && absl::IsCancelled(state))) continue;
    return PeerLost(rank, std::string(state.message()));
  }
  return absl::OkStatus();
}

void UnixTransport::close() {
  meeting_.close();
  messages_.say_goodbye();
  letters_.say_goodbye();
  const Deadline deadline(options_.close_flush_max);
  messages_.finish(deadline);
  letters_.finish(deadline);
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
    auto transport = std::make_unique<UnixTransport>(std::move(listening_), rank, size, since, options_);
    RETURN_IF_ERROR(transport->start());
    return transport;
  }

 private:
  const UnixTransportOptions options_;
  const std::string address_;
  ListeningSocket listening_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TransportListener>> listen_unix(const UnixTransportOptions& options) {
  ASSIGN_OR_RETURN(ListeningSocket listening, listen_on_random_name());
  return std::make_unique<UnixListener>(std::move(listening), options);
}

}  // namespace evermoe
