#include "comm/sandbox/sandbox_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace evermoe {

std::unique_ptr<TransportOperation> SandboxTransport::start_send(Rank to, Tag tag,
                                                                 std::span<const std::byte> bytes) {
  CHECK(tag.group != kServiceGroup) << "a service message from a sandbox";
  auto operation = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
  operation->finish(absl::OkStatus());
  const MutexLock lock(mutex_);
  said_.push_back({to, tag, {bytes.begin(), bytes.end()}});
  said_bytes_ += bytes.size();
  while (said_bytes_ > kSaidBytesMax || said_.size() > kSaidMax) {
    said_bytes_ -= said_.front().bytes.size();
    said_.pop_front();
  }
  return operation;
}

// Answered by wait(): what is said meanwhile counts.
std::unique_ptr<TransportOperation> SandboxTransport::start_receive(Rank from, Tag tag,
                                                                    std::span<std::byte> into) {
  auto operation = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
  operation->target = into;
  return operation;
}

absl::Status SandboxTransport::wait(std::unique_ptr<TransportOperation> operation, absl::Duration) {
  auto& pending = static_cast<PendingOperation&>(*operation);
  if (pending.finished) return pending.status;
  answer(pending);
  pending.finish(absl::OkStatus());
  return pending.status;
}

void SandboxTransport::answer(const PendingOperation& receive) {
  const MutexLock lock(mutex_);
  const auto said = std::ranges::find_if(said_, [&](const Said& one) {
    return one.to == receive.peer && one.tag == receive.tag &&
           one.bytes.size() == receive.target.size();
  });
  if (said == said_.end()) {
    std::ranges::fill(receive.target, std::byte{0});
    return;
  }
  std::ranges::copy(said->bytes, receive.target.begin());
  said_bytes_ -= said->bytes.size();
  said_.erase(said);
}

absl::StatusOr<ServiceMessage> SandboxTransport::receive_service_message(absl::Duration) {
  CHECK(false) << "nobody serves in a sandbox";
  return ServiceMessage();
}

void SandboxTransport::revoke(GroupRange, View, absl::Status) {
  CHECK(false) << "no view ends in a sandbox";
}

absl::Status SandboxTransport::set_peers(const std::vector<PeerAddress>&) {
  CHECK(false) << "a sandbox has no peers";
  return absl::OkStatus();
}

void SandboxTransport::connect(Rank, Traffic) { CHECK(false) << "a sandbox has no connections"; }

void SandboxTransport::cut(Rank) { CHECK(false) << "a sandbox has no connections"; }

}  // namespace evermoe
