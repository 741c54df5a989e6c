#include "comm/unix_connection.h"

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
// Parts of one sendmsg.
constexpr size_t kPartsMax = 16;
// recvmsg calls for one peer before the others get their turn.
constexpr int kReadRoundsMax = 8;

}  // namespace

std::byte* UnixConnection::Incoming::destination() const {
  if (fate == Fate::kReceive) return receive->target.data() + arrived;
  if (fate == Fate::kKeep) return kept->bytes.get() + arrived;
  return nullptr;
}

UnixConnection::UnixConnection(Rank peer, FileDescriptor socket, const int& send_waiters)
    : peer_(peer), send_waiters_(send_waiters), socket_(std::move(socket)), staging_(kStagingBytes) {}

UnixConnection::~UnixConnection() { fail(Cancelled("the transport was destroyed")); }

void UnixConnection::start_send(PendingOperation* send) {
  if (is_lost()) return send->finish(lost_);
  if (revoked_ && send->tag.view <= *revoked_) return send->finish(revoke_reason_);
  send->header = encode_frame({FrameKind::kData, send->tag, send->source.size()});
  const bool was_idle = outgoing_.empty();
  outgoing_.push(send);
  if (was_idle) flush();
}

void UnixConnection::start_receive(PendingOperation* receive) {
  if (revoked_ && receive->tag.view <= *revoked_) return receive->finish(revoke_reason_);
  inbox_.post(receive);
  if (receive->finished) return;
  if (is_lost()) {
    inbox_.withdraw(receive);
    return receive->finish(lost_);
  }
  const bool takes_incoming = incoming_ && incoming_->header.tag == receive->tag &&
                              (incoming_->fate == Incoming::Fate::kHold ||
                               incoming_->fate == Incoming::Fate::kKeep);
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
  if (is_lost()) return;
  if (const absl::Status status = parse(); !status.ok()) fail(status);
}

void UnixConnection::withdraw(PendingOperation* operation) {
  if (operation->kind == PendingOperation::Kind::kSend) {
    if (operation->written > 0) return detach_front_send(operation);
    outgoing_.remove(operation);
    return;
  }
  if (inbox_.withdraw(operation)) return;
  if (incoming_ && incoming_->receive == operation) {
    incoming_->receive = nullptr;
    incoming_->fate = Incoming::Fate::kDiscard;
  }
}

// The peer has the beginning of this frame and must get the rest, or nothing after it makes sense.
void UnixConnection::detach_front_send(PendingOperation* send) {
  CHECK(outgoing_.front() == send) << "only the front of the queue can be half written";
  orphan_ = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, peer_, send->tag);
  orphan_bytes_.reset(new std::byte[send->source.size()]);
  std::memcpy(orphan_bytes_.get(), send->source.data(), send->source.size());
  orphan_->source = {orphan_bytes_.get(), send->source.size()};
  orphan_->header = send->header;
  orphan_->written = send->written;
  outgoing_.pop();
  outgoing_.push_front(orphan_.get());
}

void UnixConnection::revoke(View last, const absl::Status& reason) {
  if (revoked_ && *revoked_ >= last) return;
  revoked_ = last;
  revoke_reason_ = reason;
  inbox_.fail_posted(last, reason);
  inbox_.drop_kept(last);
  if (incoming_ && incoming_->header.tag.view <= last) {
    if (incoming_->receive != nullptr) incoming_->receive->finish(reason);
    incoming_->receive = nullptr;
    incoming_->kept.reset();
    incoming_->fate = Incoming::Fate::kDiscard;
    resume();
  }
  if (!outgoing_.empty() && outgoing_.front()->written > 0 && outgoing_.front()->tag.view <= last &&
      outgoing_.front() != orphan_.get() && outgoing_.front() != goodbye_.get()) {
    PendingOperation* const begun = outgoing_.front();
    detach_front_send(begun);
    begun->finish(reason);
  }
  Fifo<PendingOperation> rest;
  while (!outgoing_.empty()) {
    PendingOperation* const send = outgoing_.pop();
    const bool is_ours = send == orphan_.get() || send == goodbye_.get();
    if (!is_ours && send->tag.view <= last) {
      send->finish(reason);
    } else {
      rest.push(send);
    }
  }
  outgoing_ = rest;
}

void UnixConnection::say_goodbye() {
  if (is_lost() || goodbye_) return;
  goodbye_ = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, peer_, Tag{});
  goodbye_->header = encode_frame({FrameKind::kGoodbye, Tag{}, 0});
  outgoing_.push(goodbye_.get());
  flush();
}

void UnixConnection::fail(const absl::Status& reason) {
  if (is_lost()) return;
  lost_ = reason;
  socket_.reset();
  inbox_.fail_posted(std::nullopt, reason);
  if (incoming_ && incoming_->receive != nullptr) incoming_->receive->finish(reason);
  incoming_.reset();
  while (!outgoing_.empty()) outgoing_.pop()->finish(reason);
}

void UnixConnection::on_writable() {
  if (wants_write()) flush();
}

void UnixConnection::flush() {
  while (wants_write()) {
    std::array<iovec, kPartsMax> parts;
    size_t count = 0;
    size_t offered = 0;
    const auto add = [&](const std::byte* bytes, size_t size) {
      if (size == 0) return;
      parts[count++] = {const_cast<std::byte*>(bytes), size};
      offered += size;
    };
    for (PendingOperation* send = outgoing_.front(); send != nullptr && count + 2 <= kPartsMax;
         send = send->next) {
      const size_t header_done = std::min(send->written, kFrameHeaderBytes);
      add(send->header.data() + header_done, kFrameHeaderBytes - header_done);
      const size_t payload_done = send->written - header_done;
      add(send->source.data() + payload_done, send->source.size() - payload_done);
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t written = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      // The peer is gone. Whether in peace or not stands in what it sent last: reading tells.
      if (errno != EAGAIN) writing_failed_ = hung_up_ = true;
      return;
    }
    advance_outgoing(static_cast<size_t>(written));
    if (static_cast<size_t>(written) < offered) return;
  }
}

void UnixConnection::advance_outgoing(size_t written) {
  while (!outgoing_.empty()) {
    PendingOperation* const send = outgoing_.front();
    const size_t step = std::min(written, kFrameHeaderBytes + send->source.size() - send->written);
    send->written += step;
    written -= step;
    if (send->written < kFrameHeaderBytes + send->source.size()) return;
    outgoing_.pop();
    send->finish(absl::OkStatus());
  }
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

bool UnixConnection::read_once() {
  if (staging_begin_ == staging_end_) staging_begin_ = staging_end_ = 0;
  if (staging_begin_ > 0) {
    std::memmove(staging_.data(), staging_.data() + staging_begin_, staged());
    staging_end_ = staged();
    staging_begin_ = 0;
  }
  const bool direct = incoming_ && incoming_->destination() != nullptr;
  const size_t payload = direct ? incoming_->missing() : 0;
  const size_t ahead = payload >= kDirectBytesMin ? kFrameHeaderBytes : staging_.size() - staging_end_;
  std::array<iovec, 2> parts{{{direct ? incoming_->destination() : nullptr, payload},
                              {staging_.data() + staging_end_, ahead}}};
  msghdr message{};
  message.msg_iov = parts.data() + (payload == 0 ? 1 : 0);
  message.msg_iovlen = payload == 0 ? 1 : 2;
  const ssize_t got = ::recvmsg(fd(), &message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    fail(PeerLost(peer_, absl::StrCat("rank ", peer_.value, " has closed its connection without a goodbye")));
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
  if (!header.ok()) {
    return PeerLost(peer_, absl::StrCat("rank ", peer_.value, " is given up, its stream is corrupt: ",
                                        header.status().message()));
  }
  staging_begin_ += kFrameHeaderBytes;
  if (header->kind == FrameKind::kGoodbye) {
    return Cancelled(absl::StrCat("rank ", peer_.value, " has left"));
  }
  if (header->kind != FrameKind::kData) {
    return PeerLost(peer_, absl::StrCat("rank ", peer_.value, " is given up, it greets twice"));
  }
  Incoming incoming;
  incoming.header = *header;
  RETURN_IF_ERROR(decide_fate(incoming));
  incoming_ = std::move(incoming);
  end_dangerous_hold();
  return absl::OkStatus();
}

absl::Status UnixConnection::decide_fate(Incoming& incoming) {
  const FrameHeader& header = incoming.header;
  if (revoked_ && header.tag.view <= *revoked_) {
    incoming.fate = Incoming::Fate::kDiscard;
  } else if (PendingOperation* const receive = inbox_.match(header.tag); receive != nullptr) {
    check_length(*receive, header.length);
    incoming.fate = Incoming::Fate::kReceive;
    incoming.receive = receive;
  } else if (header.length <= kEagerBytesMax && inbox_.kept_bytes() + header.length <= kKeptBytesMax) {
    incoming.fate = Incoming::Fate::kKeep;
    incoming.kept = std::make_unique<KeptMessage>(header.tag, header.length);
  } else if (inbox_.kept_bytes() + header.length > kForcedBytesMax) {
    return NoCapacity(absl::StrCat("rank ", peer_.value, " sent ", inbox_.kept_bytes() + header.length,
                                   " bytes that nobody receives"));
  } else {
    incoming.fate = Incoming::Fate::kHold;
  }
  return absl::OkStatus();
}

void UnixConnection::reconsider_hold() {
  if (!is_held()) return;
  end_dangerous_hold();
  if (!is_held()) resume();
}

void UnixConnection::end_dangerous_hold() {
  if (!is_held()) return;
  if (inbox_.posted_count() == 0 && send_waiters_ == 0 && !hung_up_) return;
  incoming_->kept = std::make_unique<KeptMessage>(incoming_->header.tag, incoming_->header.length);
  incoming_->fate = Incoming::Fate::kKeep;
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
}

}  // namespace evermoe
