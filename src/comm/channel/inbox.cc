#include "comm/channel/inbox.h"

#include <cstring>

namespace evermoe {

void check_length(const PendingOperation& receive, size_t length) {
  CHECK(receive.target.size() == length)
      << "a receive of " << receive.target.size() << " bytes meets a message of " << length
      << " from rank " << receive.peer << ", " << describe(receive.tag);
}

void deliver(std::span<const std::byte> message, PendingOperation& receive) {
  check_length(receive, message.size());
  if (!message.empty()) std::memcpy(receive.target.data(), message.data(), message.size());
  receive.finish(absl::OkStatus());
}

void Inbox::post(PendingOperation* receive) {
  const auto kept = kept_.find(receive->tag);
  if (kept == kept_.end()) {
    posted_[receive->tag].push(receive);
    ++posted_count_;
    return;
  }
  const std::unique_ptr<KeptMessage> message = std::move(kept->second.front());
  kept->second.pop_front();
  if (kept->second.empty()) kept_.erase(kept);
  kept_bytes_ -= message->size;
  deliver(message->span(), *receive);
}

PendingOperation* Inbox::match(const Tag& tag) {
  const auto posted = posted_.find(tag);
  if (posted == posted_.end()) return nullptr;
  PendingOperation* const receive = posted->second.pop();
  if (posted->second.empty()) posted_.erase(posted);
  --posted_count_;
  return receive;
}

void Inbox::keep(std::unique_ptr<KeptMessage> message) {
  kept_bytes_ += message->size;
  kept_[message->tag].push_back(std::move(message));
}

bool Inbox::withdraw(PendingOperation* receive) {
  const auto posted = posted_.find(receive->tag);
  if (posted == posted_.end() || !posted->second.remove(receive)) return false;
  if (posted->second.empty()) posted_.erase(posted);
  --posted_count_;
  return true;
}

void Inbox::fail_posted(std::optional<View> last, const absl::Status& reason) {
  for (auto at = posted_.begin(); at != posted_.end();) {
    const auto posted = at++;
    if (last && posted->first.view > *last) continue;
    while (!posted->second.empty()) {
      posted->second.pop()->finish(reason);
      --posted_count_;
    }
    posted_.erase(posted);
  }
}

void Inbox::drop_kept(View last) {
  absl::erase_if(kept_, [&](const auto& entry) {
    if (entry.first.view > last) return false;
    for (const auto& message : entry.second) kept_bytes_ -= message->size;
    return true;
  });
}

void Inbox::fail_posted(GroupRange groups, View last, const absl::Status& reason) {
  absl::erase_if(posted_, [&](auto& entry) {
    if (!groups.contains(entry.first.group) || entry.first.view > last) return false;
    for (; !entry.second.empty(); --posted_count_) entry.second.pop()->finish(reason);
    return true;
  });
}

void Inbox::drop_kept(GroupRange groups, View last) {
  absl::erase_if(kept_, [&](const auto& entry) {
    if (!groups.contains(entry.first.group) || entry.first.view > last) return false;
    for (const auto& message : entry.second) kept_bytes_ -= message->size;
    return true;
  });
}

}  // namespace evermoe
