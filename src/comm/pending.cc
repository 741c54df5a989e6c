#include "comm/pending.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace evermoe {

PendingMessage::~PendingMessage() {
  if (operation_) transport_->wait(std::move(operation_), absl::ZeroDuration()).IgnoreError();
}

PendingMessage& PendingMessage::operator=(PendingMessage&& other) noexcept {
  std::swap(transport_, other.transport_);
  std::swap(operation_, other.operation_);
  std::swap(deadline_, other.deadline_);
  std::swap(idle_work_, other.idle_work_);
  return *this;
}

absl::Status PendingMessage::wait() {
  if (!operation_) return absl::OkStatus();
  return wait_for_message(*transport_, std::move(operation_), deadline_, *idle_work_);
}

absl::Status wait_all(std::vector<PendingMessage>& messages) {
  for (PendingMessage& message : messages) RETURN_IF_ERROR(message.wait());
  return absl::OkStatus();
}

bool are_done(std::vector<PendingMessage>& messages) {
  return std::all_of(messages.begin(), messages.end(),
                     [](PendingMessage& m) { return m.is_done(); });
}

bool PendingCollective::advance() {
  if (!work_) return true;
  while (status_.ok() && !work_->is_complete()) {
    if (!work_->can_go_on()) return false;
    status_ = work_->go_on();
  }
  return true;
}

absl::Status PendingCollective::wait() {
  if (!work_) return absl::OkStatus();
  while (status_.ok() && !work_->is_complete()) status_ = work_->go_on();
  work_.reset();
  return std::exchange(status_, absl::OkStatus());
}

}  // namespace evermoe
