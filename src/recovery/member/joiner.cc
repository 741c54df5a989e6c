#include "recovery/member/joiner.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "comm/transport/seated_transport.h"
#include "recovery/member/serve/wanted_chunks.h"

namespace evermoe {
namespace {

// A role goes back to its newest complete window, while one after that is being completed and the
// next one captured.
constexpr int kWindowsMax = 3;
constexpr absl::Duration kLookAgain = absl::Seconds(10);

}  // namespace

Joiner::Joiner(Rank role, const PeerAddress& leaver, Transport& transport, int64_t bytes_max,
               OnWhole on_whole)
    : role_(role),
      leaver_(leaver),
      other_(other_process(role, transport.size() / 2)),
      transport_(transport),
      sender_(transport, [](View, const absl::Status&) {}),
      store_(bytes_max),
      on_whole_(std::move(on_whole)) {}

absl::Status Joiner::serve() {
  RETURN_IF_ERROR(set_peers({}));
  while (!is_stopped_) {
    absl::StatusOr<ServiceMessage> message = transport_.receive_service_message(kLookAgain);
    sender_.reap();
    if (message.ok())
      on_message(*std::move(message));
    else if (!absl::IsDeadlineExceeded(message.status()))
      return message.status();
  }
  return absl::OkStatus();
}

absl::Status Joiner::set_peers(const Neighbours& neighbours) {
  std::vector<PeerAddress> table(static_cast<size_t>(transport_.size() / 2));
  std::map<Rank, PeerAddress> others = {{role_, leaver_}};
  for (const auto& [rank, neighbour] : neighbours) {
    table.at(static_cast<size_t>(rank.value)) = neighbour.address;
    if (!neighbour.joiner.address.empty()) others[rank] = neighbour.joiner;
  }
  return transport_.set_peers(with_others(std::move(table), transport_.size(), others));
}

void Joiner::stop() {
  stop_soon();
  sender_.wake_service();
}

// Only the role's present process says anything here, and nobody else depends on it: what makes no
// sense is dropped.
void Joiner::on_message(ServiceMessage message) {
  if (message.from != other_) return;
  switch (static_cast<MessageKind>(message.tag.purpose)) {
    case MessageKind::kChunk: return on_chunk(std::move(message));
    case MessageKind::kOffer: return on_offer(message);
    case MessageKind::kConnect: return on_connect(message);
    default: return;
  }
}

void Joiner::on_chunk(ServiceMessage message) {
  const View view = message.tag.view;
  const size_t size = message.size;
  const absl::StatusOr<Chunk> chunk =
      Chunk::from_block(std::shared_ptr<std::byte[]>(message.bytes.release()), size);
  if (!chunk.ok()) return;
  const SlotMessage slot{chunk->header().owner, {chunk->header().window, chunk->header().slot}};
  if (!chunk->verify().ok()) return want(view, slot);
  if (!store_.add(*chunk).ok()) return;
  if (!store_.has_slot(slot.owner, slot.time)) return;
  acknowledge(view, slot);
  if (slot.owner == role_ && slot.time.slot == kWholeState)
    on_whole_(store_.slot(slot.owner, slot.time));
  store_.keep_newest(slot.owner, kWindowsMax);
}

void Joiner::on_offer(const ServiceMessage& message) {
  const absl::StatusOr<SlotMessage> offered = decode_slot_message(message.span());
  if (!offered.ok()) return;
  if (store_.has_slot(offered->owner, offered->time))
    acknowledge(message.tag.view, *offered);
  else
    want(message.tag.view, *offered);
}

// Where it does not come off they connect when they need each other.
void Joiner::on_connect(const ServiceMessage& message) {
  const absl::StatusOr<Neighbours> neighbours = decode_neighbours(message.span());
  if (!neighbours.ok() || neighbours->empty() || neighbours->contains(role_) ||
      neighbours->rbegin()->first.value >= transport_.size() / 2 || !set_peers(*neighbours).ok())
    return;
  for (const auto& [rank, neighbour] : *neighbours) {
    connect(rank, neighbour);
    if (!neighbour.joiner.address.empty())
      connect(other_process(rank, transport_.size() / 2), neighbour);
  }
}

void Joiner::connect(Rank with, const Neighbour& as) {
  if (as.messages) transport_.connect(with, Traffic::kMessages);
  if (as.service_messages) transport_.connect(with, Traffic::kServiceMessages);
}

void Joiner::want(View view, const SlotMessage& slot) {
  sender_.send(other_, view, MessageKind::kWantSlot, encode(lacking_in(store_, slot)));
}

void Joiner::acknowledge(View view, const SlotMessage& slot) {
  sender_.send(other_, view, MessageKind::kAcknowledge, encode(slot));
}

}  // namespace evermoe
