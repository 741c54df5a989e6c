#include "recovery/member/serve/link_probes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace evermoe {

absl::Duration LinkProbes::work() {
  if (options_.pause == absl::InfiniteDuration()) return options_.pause;
  const absl::Duration now = clock_.now();
  if (under_way_) {
    const absl::Duration given_up = under_way_->sent + options_.answer_max;
    if (now < given_up) return given_up - now;
    peers_[under_way_->to] = {now, now + options_.silent_pause, under_way_->traffic};
    under_way_.reset();
    next_ = now;
  }
  if (now < next_) return next_ - now;
  next_ = now + uneven(options_.pause);
  begin(now);
  return under_way_ ? options_.answer_max : next_ - now;
}

// From half of it to one and a half, and never alike. Even pauses can fall into step with the
// training, so that every probe waits behind the same copies. The golden ratio spreads evenly.
absl::Duration LinkProbes::uneven(absl::Duration pause) const {
  constexpr double kGoldenRatio = 0.6180339887498949;
  double whole = 0;
  return (0.5 + std::modf(static_cast<double>(number_) * kGoldenRatio, &whole)) * pause;
}

// With whoever was sent anything since its last one.
void LinkProbes::begin(absl::Duration now) {
  std::optional<UnderWay> next;
  for (const auto& [rank, sent] : sent_->so_far()) {
    const Peer& peer =
        peers_.try_emplace(rank, Peer{now, now + options_.pair_pause, sent}).first->second;
    if (now < peer.not_before || sent.messages == peer.sent.messages) continue;
    if (!next || peer.measured < peers_[next->to].measured)
      next = UnderWay{.to = rank, .traffic = sent};
  }
  if (!next) return;
  under_way_ = next;
  probe(0);
}

void LinkProbes::probe(size_t bytes) {
  under_way_->number = ++number_;
  MessageBytes message = encode_probe(number_, bytes);
  under_way_->sent = clock_.now();
  send_(under_way_->to, MessageKind::kProbe, std::move(message));
}

absl::Status LinkProbes::on_message(const ServiceMessage& message) {
  ASSIGN_OR_RETURN(const uint64_t number, decode_probe(message.span()));
  if (static_cast<MessageKind>(message.tag.purpose) == MessageKind::kProbe) {
    send_(message.from, MessageKind::kEcho, encode_probe(number));
  } else {
    on_echo(message.from, number);
  }
  return absl::OkStatus();
}

// One that comes after its measurement was given up tells of nothing any more.
void LinkProbes::on_echo(Rank from, uint64_t number) {
  if (!under_way_ || under_way_->to != from || under_way_->number != number) return;
  const absl::Duration now = clock_.now(), taken = now - under_way_->sent;
  if (under_way_->round_trip) return finish(now, *under_way_->round_trip, taken);
  under_way_->round_trip = taken;
  probe(options_.bulk_bytes);
}

void LinkProbes::finish(absl::Duration now, absl::Duration round_trip, absl::Duration bulk) {
  const UnderWay done = *std::exchange(under_way_, std::nullopt);
  next_ = now + uneven(options_.pause);
  Peer& peer = peers_[done.to];
  const absl::Duration pause = uneven(std::max(options_.pair_pause, options_.bulk_pauses * bulk));
  const Peer before = std::exchange(peer, {now, now + pause, done.traffic});
  const double seconds = absl::ToDoubleSeconds(now - before.measured);
  const auto messages = static_cast<double>(done.traffic.messages - before.sent.messages);
  const auto bytes = static_cast<double>(done.traffic.bytes - before.sent.bytes);
  const LinkTime time{done.to, round_trip, bulk, messages / seconds,
                      bytes / static_cast<double>(options_.bulk_bytes) / seconds};
  const MutexLock lock(mutex_);
  if (times_.size() == kLinkTimesMax) times_.erase(times_.begin());
  times_.push_back(time);
}

std::vector<LinkTime> LinkProbes::take() {
  const MutexLock lock(mutex_);
  return std::exchange(times_, {});
}

}  // namespace evermoe
