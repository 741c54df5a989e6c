#include "comm/unix/unix_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Large enough for several small messages in one system call; what passes through it is copied once
// more, so that of a large message little should.
constexpr size_t kStagingBytes = 16 << 10;
// A payload this large is read alone with its successor's header, so that the successor's payload
// goes straight to its receive as well.
constexpr size_t kDirectBytesMin = 16 << 10;
// recvmsg calls for one peer before the others get their turn.
constexpr int kReadRoundsMax = 8;

}  // namespace

std::byte* UnixConnection::Incoming::destination() const {
  if (fate == Fate::kReceive) return receive->target.data() + arrived;
  if (fate == Fate::kKeep) return kept->bytes.get() + arrived;
  if (fate == Fate::kService) return service_message.bytes.get() + arrived;
  return nullptr;
}

UnixConnection::UnixConnection(Rank peer, FileDescriptor socket, uint32_t number,
                               UnixChannelState& channel)
    : peer_(peer),
      number_(number),
      channel_(channel),
      socket_(std::move(socket)),
      outbox_(peer),
      staging_(kStagingBytes) {}

UnixConnection::~UnixConnection() { fail(Cancelled("the transport was destroyed")); }

void UnixConnection::start_send(PendingOperation* send) {
  if (is_lost()) return send->finish(lost_);
  const bool was_idle = outbox_.empty();
  outbox_.push(send);
  if (was_idle) flush();
}

void UnixConnection::start_receive(PendingOperation* receive) {
  inbox_.post(receive);
  if (receive->finished) return;
  if (is_lost()) {
    inbox_.withdraw(receive);
    return receive->finish(lost_);
  }
  const bool takes_incoming =
      incoming_ && incoming_->header.tag == receive->tag &&
      (incoming_->fate == Incoming::Fate::kHold || incoming_->fate == Incoming::Fate::kKeep);
  if (!takes_incoming) return reconsider_hold();
  PendingOperation* const matched = inbox_.match(receive->tag);
  check_length(*matched, incoming_->header.length);
  if (incoming_->kept && incoming_->arrived > 0) {
    std::memcpy(matched->target.data(), incoming_->kept->bytes.get(), incoming_->arrived);
  }
  incoming_->kept.reset();
  incoming_->receive = matched;
  incoming_->fate = Incoming::Fate::kReceive;
  resume();
}

void UnixConnection::resume() {
  if (!is_held()) channel_.held.erase(this);
  if (is_lost()) return;
  if (const absl::Status status = parse(); !status.ok()) fail(status);
}

void UnixConnection::withdraw(PendingOperation* operation) {
  if (operation->kind == PendingOperation::Kind::kSend) return outbox_.withdraw(operation);
  if (inbox_.withdraw(operation)) return;
  if (incoming_ && incoming_->receive == operation) {
    incoming_->receive = nullptr;
    incoming_->fate = Incoming::Fate::kDiscard;
  }
}

void UnixConnection::revoke(GroupRange groups, View last, const absl::Status& reason) {
  inbox_.fail_posted(groups, last, reason);
  inbox_.drop_kept(groups, last);
  outbox_.revoke(groups, last, reason);
  if (!incoming_ || channel_.revocations.find(incoming_->header.tag) == nullptr) return;
  if (incoming_->receive != nullptr) incoming_->receive->finish(reason);
  incoming_->receive = nullptr;
  incoming_->kept.reset();
  incoming_->fate = Incoming::Fate::kDiscard;
  resume();
}

void UnixConnection::say_goodbye() {
  if (is_lost()) return;
  outbox_.say_goodbye();
  flush();
}

void UnixConnection::fail(const absl::Status& reason) {
  if (is_lost()) return;
  lost_ = reason;
  channel_.held.erase(this);
  socket_.reset();
  inbox_.fail_posted(std::nullopt, reason);
  if (incoming_ && incoming_->receive != nullptr) incoming_->receive->finish(reason);
  if (incoming_ && incoming_->fate == Incoming::Fate::kService)
    channel_.service_messages->abandon(incoming_->service_message);
  incoming_.reset();
  outbox_.fail(reason);
}

absl::Status UnixConnection::give_up(const std::string& why) const {
  return PeerLost(peer_, absl::StrCat("rank ", peer_.value, " is given up, ", why));
}

void UnixConnection::on_writable() {
  if (wants_write()) flush();
}

// If the peer is gone, what it sent last says whether it left in peace: reading tells.
void UnixConnection::flush() {
  if (!outbox_.flush(fd())) writing_failed_ = hung_up_ = true;
}

void UnixConnection::on_hang_up() {
  hung_up_ = true;
  reconsider_hold();
  on_readable();
}

void UnixConnection::on_readable() {
  for (int round = 0; round < kReadRoundsMax && wants_read(); ++round) {
    if (!read_once()) return;
  }
}

void UnixConnection::make_room_for_reading() {
  if (staging_begin_ == staging_end_) staging_begin_ = staging_end_ = 0;
  if (staging_begin_ == 0) return;
  std::memmove(staging_.data(), staging_.data() + staging_begin_, staged());
  staging_end_ = staged();
  staging_begin_ = 0;
}

bool UnixConnection::read_once() {
  make_room_for_reading();
  const bool direct = incoming_ && incoming_->destination() != nullptr;
  const size_t payload = direct ? incoming_->missing() : 0;
  const size_t ahead =
      payload >= kDirectBytesMin ? kFrameHeaderBytes : staging_.size() - staging_end_;
  std::array<iovec, 2> parts{{{direct ? incoming_->destination() : nullptr, payload},
                              {staging_.data() + staging_end_, ahead}}};
  msghdr message{};
  message.msg_iov = parts.data() + (payload == 0 ? 1 : 0);
  message.msg_iovlen = payload == 0 ? 1 : 2;
  const ssize_t got = ::recvmsg(fd(), &message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    fail(PeerLost(
        peer_, absl::StrCat("rank ", peer_.value, " has closed its connection without a goodbye")));
    return false;
  }
  const size_t direct_got = std::min(static_cast<size_t>(got), payload);
  if (incoming_) incoming_->arrived += direct_got;
  staging_end_ += static_cast<size_t>(got) - direct_got;
  resume();
  return static_cast<size_t>(got) == payload + ahead;
}

// Works off the staged bytes, message by message, until more have to be read or one is held.
absl::Status UnixConnection::parse() {
  while (true) {
    if (!incoming_) {
      if (staged() < kFrameHeaderBytes) return absl::OkStatus();
      RETURN_IF_ERROR(begin_message());
    }
    if (is_held()) return absl::OkStatus();
    consume(std::min(incoming_->missing(), staged()));
    if (incoming_->missing() > 0) return absl::OkStatus();
    complete_message();
  }
}

absl::Status UnixConnection::begin_message() {
  const auto header = decode_frame({staging_.data() + staging_begin_, kFrameHeaderBytes});
  if (!header.ok())
    return give_up(absl::StrCat("its stream is corrupt: ", header.status().message()));
  staging_begin_ += kFrameHeaderBytes;
  if (header->kind == FrameKind::kGoodbye)
    return Cancelled(absl::StrCat("rank ", peer_.value, " has left"));
  Incoming incoming;
  incoming.header = *header;
  RETURN_IF_ERROR(incoming.is_service_message() ? decide_fate_of_service_message(incoming)
                                                : decide_fate(incoming));
  incoming_ = std::move(incoming);
  end_hold_if_needed();
  if (is_held()) channel_.held.insert(this);
  return absl::OkStatus();
}

absl::Status UnixConnection::decide_fate(Incoming& incoming) {
  const FrameHeader& header = incoming.header;
  if (channel_.revocations.find(header.tag) != nullptr) {
    incoming.fate = Incoming::Fate::kDiscard;
  } else if (PendingOperation* const receive = inbox_.match(header.tag); receive != nullptr) {
    check_length(*receive, header.length);
    incoming.fate = Incoming::Fate::kReceive;
    incoming.receive = receive;
  } else if (header.length <= kEagerBytesMax &&
             inbox_.kept_bytes() + header.length <= kKeptBytesMax) {
    incoming.fate = Incoming::Fate::kKeep;
    incoming.kept = std::make_unique<KeptMessage>(header.tag, header.length);
  } else if (inbox_.kept_bytes() + header.length > kForcedBytesMax) {
    return NoCapacity(absl::StrCat("rank ", peer_.value, " sent ",
                                   inbox_.kept_bytes() + header.length,
                                   " bytes that nobody receives"));
  } else {
    incoming.fate = Incoming::Fate::kHold;
  }
  return absl::OkStatus();
}

absl::Status UnixConnection::decide_fate_of_service_message(Incoming& incoming) {
  if (!channel_.service_messages)
    return give_up("it sends service messages where none are expected");
  const size_t length = incoming.header.length;
  if (length > kForcedBytesMax)
    return NoCapacity(
        absl::StrCat("rank ", peer_.value, " sent a service message of ", length, " bytes"));
  if (channel_.service_messages->has_room(peer_, length)) {
    take_service_message(incoming);
  } else {
    incoming.fate = Incoming::Fate::kHold;
  }
  return absl::OkStatus();
}

void UnixConnection::take_service_message(Incoming& incoming) {
  incoming.fate = Incoming::Fate::kService;
  incoming.service_message =
      channel_.service_messages->expect(peer_, incoming.header.tag, incoming.header.length);
}

void UnixConnection::reconsider_hold() {
  if (!is_held()) return;
  end_hold_if_needed();
  if (!is_held()) resume();
}

bool UnixConnection::holding_is_dangerous() const {
  if (incoming_->is_service_message()) {
    const size_t forced = channel_.service_messages->bytes_from(peer_) + incoming_->header.length;
    return hung_up_ || (channel_.send_waiters > 0 && forced <= kForcedBytesMax);
  }
  return hung_up_ || channel_.send_waiters > 0 || inbox_.posted_count() > 0;
}

void UnixConnection::end_hold_if_needed() {
  if (!is_held()) return;
  const FrameHeader& header = incoming_->header;
  if (incoming_->is_service_message()) {
    if (channel_.service_messages->has_room(peer_, header.length) || holding_is_dangerous())
      take_service_message(*incoming_);
  } else if (holding_is_dangerous()) {
    incoming_->kept = std::make_unique<KeptMessage>(header.tag, header.length);
    incoming_->fate = Incoming::Fate::kKeep;
  }
}

void UnixConnection::consume(size_t bytes) {
  if (bytes > 0 && incoming_->destination() != nullptr) {
    std::memcpy(incoming_->destination(), staging_.data() + staging_begin_, bytes);
  }
  staging_begin_ += bytes;
  incoming_->arrived += bytes;
}

void UnixConnection::complete_message() {
  Incoming done = std::move(*incoming_);
  incoming_.reset();
  if (done.fate == Incoming::Fate::kReceive) done.receive->finish(absl::OkStatus());
  if (done.fate == Incoming::Fate::kKeep) inbox_.keep(std::move(done.kept));
  if (done.fate == Incoming::Fate::kService)
    channel_.service_messages->put(std::move(done.service_message));
}

}  // namespace evermoe
