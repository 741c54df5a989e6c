#include "comm/transport/seated_transport.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr absl::string_view kPrefixes[] = {"seat0@", "seat1@"};

struct SeatedAddress {
  int seat = 0;
  absl::string_view address;  // a part of the text: there are thousands, some of 500 characters
};

absl::StatusOr<SeatedAddress> parse(absl::string_view text) {
  for (const int seat : {0, 1}) {
    absl::string_view rest = text;
    if (absl::ConsumePrefix(&rest, kPrefixes[seat])) return SeatedAddress{seat, rest};
  }
  return InvalidInput(absl::StrCat(text, " is no address of a process in a role's seat"));
}

}  // namespace

std::vector<PeerAddress> with_others(std::vector<PeerAddress> table, int seats,
                                     const std::map<Rank, PeerAddress>& others) {
  const auto world_size = static_cast<int>(table.size());
  table.resize(static_cast<size_t>(seats));
  for (const auto& [role, other] : others)
    table.at(static_cast<size_t>(other_process(role, world_size).value)) = other;
  return table;
}

std::string seated_address(int seat, const std::string& address) {
  return absl::StrCat(kPrefixes[seat], address);
}

absl::StatusOr<int> seat_in(const std::string& seated_address) {
  ASSIGN_OR_RETURN(const SeatedAddress parsed, parse(seated_address));
  return parsed.seat;
}

SeatedTransport::SeatedTransport(Transport& inner)
    : inner_(inner),
      role_(inner.rank().value % (inner.size() / 2)),
      players_(static_cast<size_t>(inner.size() / 2)) {
  CHECK(inner.size() % 2 == 0) << inner.size() << " are not two seats for each role";
  players_[static_cast<size_t>(role_.value)].seat = inner.rank().value / roles();
}

Rank SeatedTransport::seat_of(Rank rank) const {
  CHECK(rank.value >= 0 && rank.value < size()) << "rank " << rank << " of " << size();
  const Rank role(rank.value % roles());
  const MutexLock lock(mutex_);
  const int seat = players_[static_cast<size_t>(role.value)].seat;
  return seat_rank(role, rank == role ? seat : 1 - seat, roles());
}

// Who has left is meant by the role's rank, too, as long as there is nobody else.
Rank SeatedTransport::rank_of(Rank seat, View view) const {
  const Rank role(seat.value % roles());
  if (role == role_) return seat == inner_.rank() ? role : other_process(role, roles());
  const MutexLock lock(mutex_);
  const Players& players = players_[static_cast<size_t>(role.value)];
  if (seat.value / roles() == players.seat || players.other_since == View(0)) return role;
  const bool plays_next = players.other_since > players.since && view >= players.other_since;
  return plays_next ? role : other_process(role, roles());
}

absl::Status SeatedTransport::wait(std::unique_ptr<TransportOperation> operation,
                                   absl::Duration timeout) {
  absl::Status status = inner_.wait(std::move(operation), timeout);
  const std::optional<Rank> accused = accused_rank(status);
  if (!accused || accused->value < roles()) return status;
  const Rank role(accused->value % roles());
  const std::string text = absl::StrCat(status.message(), " (in that seat: rank ", role.value, ")");
  return absl::IsUnavailable(status) ? PeerLost(role, text) : Timeout(role, text);
}

absl::StatusOr<ServiceMessage> SeatedTransport::receive_service_message(absl::Duration timeout) {
  ASSIGN_OR_RETURN(ServiceMessage message, inner_.receive_service_message(timeout));
  message.from = rank_of(message.from, message.tag.view);
  return message;
}

absl::StatusOr<SeatedTransport::Players> SeatedTransport::place(
    Rank role, const std::vector<PeerAddress>& table, std::vector<PeerAddress>& seats) const {
  const PeerAddress& player = table[static_cast<size_t>(role.value)];
  const PeerAddress& other = table[static_cast<size_t>(other_process(role, roles()).value)];
  const auto at = [&](int seat) -> PeerAddress& {
    return seats[static_cast<size_t>(seat_rank(role, seat, roles()).value)];
  };
  Players players;
  {
    const MutexLock lock(mutex_);
    players = players_[static_cast<size_t>(role.value)];
  }
  players.since = player.since;
  players.other_since = other.address.empty() ? View(0) : other.since;
  if (!player.address.empty()) {
    ASSIGN_OR_RETURN(const SeatedAddress parsed, parse(player.address));
    if (role == role_ && parsed.seat != players.seat)
      return InvalidInput(absl::StrCat("rank ", role.value, " has the other seat of its role"));
    players.seat = parsed.seat;
    at(parsed.seat) = {std::string(parsed.address), player.since};
  }
  if (!other.address.empty()) {
    ASSIGN_OR_RETURN(const SeatedAddress parsed, parse(other.address));
    if (player.address.empty() && role != role_) players.seat = 1 - parsed.seat;
    if (parsed.seat == players.seat)
      return InvalidInput(absl::StrCat("two processes of role ", role.value, " in one seat"));
    at(parsed.seat) = {std::string(parsed.address), other.since};
  }
  return players;
}

// Ranks mean others only when their seats have been named: until then what is pending with the
// former ones goes on, or ends.
absl::Status SeatedTransport::set_peers(const std::vector<PeerAddress>& table) {
  CHECK(std::ssize(table) == size()) << "a table of " << table.size() << " for " << size();
  std::vector<PeerAddress> seats(table.size());
  std::vector<Players> players;
  for (int32_t role = 0; role < roles(); ++role) {
    ASSIGN_OR_RETURN(Players of_role, place(Rank(role), table, seats));
    players.push_back(of_role);
  }
  RETURN_IF_ERROR(inner_.set_peers(seats));
  const MutexLock lock(mutex_);
  players_ = std::move(players);
  return absl::OkStatus();
}

namespace {

class SeatedListener final : public TransportListener {
 public:
  SeatedListener(std::unique_ptr<TransportListener> inner, int seat)
      : inner_(std::move(inner)), seat_(seat), address_(seated_address(seat, inner_->address())) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> open(Rank role, int size, View since) override {
    ASSIGN_OR_RETURN(auto inner, inner_->open(seat_rank(role, seat_, size / 2), size, since));
    return std::make_unique<SeatedTransport>(std::move(inner));
  }

 private:
  const std::unique_ptr<TransportListener> inner_;
  const int seat_;
  const std::string address_;
};

}  // namespace

std::unique_ptr<TransportListener> listen_in_seat(std::unique_ptr<TransportListener> inner,
                                                  int seat) {
  return std::make_unique<SeatedListener>(std::move(inner), seat);
}

}  // namespace evermoe
