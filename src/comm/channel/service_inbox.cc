#include "comm/channel/service_inbox.h"

#include <utility>

namespace evermoe {

bool ServiceInbox::has_room(Rank from, size_t size) const {
  const Sender& waiting = sender(from);
  return waiting.service_messages == 0 || (waiting.bytes + size <= Transport::kServiceBytesMax &&
                                           bytes_ + size <= Transport::kServiceBytesOfAllMax &&
                                           waiting.service_messages < kServiceMessagesMax);
}

ServiceMessage ServiceInbox::expect(Rank from, Tag tag, size_t size) {
  sender(from).bytes += size;
  bytes_ += size;
  ++sender(from).service_messages;
  return {from, tag, size, std::unique_ptr<std::byte[]>(new std::byte[size])};
}

void ServiceInbox::put(ServiceMessage service_message) {
  service_messages_.push_back(std::move(service_message));
  if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->finish(absl::OkStatus());
}

void ServiceInbox::abandon(const ServiceMessage& service_message) {
  sender(service_message.from).bytes -= service_message.size;
  bytes_ -= service_message.size;
  --sender(service_message.from).service_messages;
}

std::optional<ServiceMessage> ServiceInbox::take() {
  if (service_messages_.empty()) return std::nullopt;
  ServiceMessage service_message = std::move(service_messages_.front());
  service_messages_.pop_front();
  abandon(service_message);
  return service_message;
}

void ServiceInbox::wake(PendingOperation* waiter) {
  CHECK(waiter == nullptr || waiter_ == nullptr) << "two threads receive service messages";
  waiter_ = waiter;
}

void ServiceInbox::fail(const absl::Status& reason) {
  if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->finish(reason);
}

absl::Status no_service_message_within(absl::Duration timeout) {
  return Timeout(absl::StrCat("no service message within ", absl::FormatDuration(timeout)));
}

}  // namespace evermoe
