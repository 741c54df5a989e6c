#include "recovery/protocol/message_sender.h"

#include <algorithm>
#include <utility>

namespace evermoe {

MessageSender::~MessageSender() {
  for (Sending& sending : sending_)
    (void)transport_.wait(std::move(sending.operation), absl::ZeroDuration());
}

void MessageSender::send(Rank to, View view, MessageKind kind, MessageBytes bytes) {
  auto owner = std::make_shared<MessageBytes>(std::move(bytes));
  const std::span<const std::byte> span = *owner;
  send(to, view, kind, span, std::move(owner));
}

void MessageSender::send(Rank to, View view, MessageKind kind, std::span<const std::byte> bytes,
                         std::shared_ptr<const void> owner) {
  if (!bytes.empty() && is_on_its_way(to, view, bytes.data())) return;
  // Started outside the lock: another thread of this process may run meanwhile.
  Sending sending{
      to,
      view,
      kind,
      bytes.data(),
      transport_.start_send(to, Tag{view, kServiceGroup, static_cast<uint32_t>(kind)}, bytes),
      std::move(owner)};
  if (transport_.done(*sending.operation)) return finish(std::move(sending));
  const MutexLock lock(mutex_);
  sending_.push_back(std::move(sending));
}

bool MessageSender::is_on_its_way(Rank to, View view, const std::byte* bytes) const {
  const MutexLock lock(mutex_);
  return std::any_of(sending_.begin(), sending_.end(), [&](const Sending& sending) {
    return sending.to == to && sending.view == view && sending.bytes == bytes;
  });
}

void MessageSender::finish(Sending sending) {
  const absl::Status status = transport_.wait(std::move(sending.operation), absl::ZeroDuration());
  if (status.ok() && sending.kind == MessageKind::kChunk) ++chunks_taken_;
  if (absl::IsUnavailable(status)) on_failure_(sending.view, status);
}

size_t MessageSender::reap() {
  std::list<Sending> all;
  {
    const MutexLock lock(mutex_);
    all.swap(sending_);
  }
  for (auto at = all.begin(); at != all.end();) {
    if (!transport_.done(*at->operation)) {
      ++at;
      continue;
    }
    finish(std::move(*at));
    at = all.erase(at);
  }
  const size_t left = all.size();
  const MutexLock lock(mutex_);
  sending_.splice(sending_.begin(), all);
  return left;
}

}  // namespace evermoe
