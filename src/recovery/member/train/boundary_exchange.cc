#include "recovery/member/train/boundary_exchange.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "recovery/protocol/repeats.h"

namespace evermoe {

BoundaryExchange::~BoundaryExchange() { finish(); }

// Unique among all pushes that can be on their way between two ranks at once.
Tag BoundaryExchange::push_tag(View view, const BoundaryName& name) const {
  CHECK(name.micro_batch.value >= 0 && name.micro_batch.value <= 0xffff)
      << "micro-batch " << name.micro_batch;
  const auto step = static_cast<uint32_t>(step_of(name.commit).value & 0x3f);
  const auto batch = static_cast<uint32_t>(name.commit.value & 0x3f);
  const uint32_t purpose = step << 23 | batch << 17 | static_cast<uint32_t>(name.direction) << 16 |
                           static_cast<uint32_t>(name.micro_batch.value);
  return {view, kBoundaryGroup, purpose};
}

void BoundaryExchange::answer(Rank to, View view, const BoundaryName& name,
                              const BoundaryMessage& message) {
  const auto bytes = std::make_shared<MessageBytes>(encode(NamedBoundary{name, message.bytes}));
  {
    const MutexLock lock(mutex_);
    std::erase_if(answers_, [](const auto& answer) { return answer.second.expired(); });
    if (!answers_.emplace(std::tuple(to, view, name), bytes).second) return;
  }
  in_.sender.send(to, view, MessageKind::kBoundary, *bytes, bytes);
}

absl::Status BoundaryExchange::send(Rank to, BoundaryDirection direction, MicroBatch micro_batch,
                                    BoundaryMessage message) {
  const BoundaryName name{commit_, direction, micro_batch};
  // Without waiting: a member whose view is stopped goes on computing until it needs something.
  const std::shared_ptr<const Plan> plan = in_.views.plan();
  const auto put = in_.log.put(name, message);
  if (is_contradiction(put.status())) keep_sent(name, message.bytes);
  ASSIGN_OR_RETURN(const auto waiting, put);
  if (commit_ <= plan->newest) {
    in_.sender.send(to, plan->view, MessageKind::kAudit,
                    encode_audit(name, fingerprint(message.bytes)));
  }
  for (const BoundaryLog::Waiting& request : waiting)
    answer(request.rank, plan->view, name, message);
  if (is_pulled(*plan)) return absl::OkStatus();
  pushed_.push_back(
      {in_.transport.start_send(to, push_tag(plan->view, name), message.bytes), message.owner});
  return absl::OkStatus();
}

void BoundaryExchange::keep_sent(const BoundaryName& name, std::span<const std::byte> now) const {
  const std::optional<BoundaryMessage> before = in_.log.find(name);
  if (!before) return;
  in_.witnesses.add(to_string(name), fingerprint(before->bytes), fingerprint(now), before->bytes,
                    now);
}

void BoundaryExchange::begin(Commit commit) {
  forget_expected();
  commit_ = commit;
}

void BoundaryExchange::expect(Rank from, BoundaryDirection direction, MicroBatch micro_batch,
                              std::span<std::byte> into, std::shared_ptr<const void> owner) {
  const BoundaryName name{commit_, direction, micro_batch};
  // As for sends; what is expected in a view that ends is received in another way.
  const std::shared_ptr<const Plan> plan = in_.views.plan();
  if (is_pulled(*plan) || expected_.contains(name)) return;
  expected_[name] = {plan->view,
                     in_.transport.start_receive(from, push_tag(plan->view, name), into), into,
                     std::move(owner)};
}

std::unique_ptr<TransportOperation> BoundaryExchange::take_expected(View view,
                                                                    const BoundaryName& name,
                                                                    std::span<std::byte> into) {
  const auto found = expected_.find(name);
  if (found == expected_.end()) return nullptr;
  Expected& expected = found->second;
  CHECK(expected.into.data() == into.data() && expected.into.size() == into.size())
      << to_string(name) << " was expected elsewhere";
  std::unique_ptr<TransportOperation> operation = std::move(expected.operation);
  const bool is_of_view = expected.view == view;
  expected_.erase(found);
  if (is_of_view) return operation;
  (void)in_.transport.wait(std::move(operation), absl::ZeroDuration());
  return nullptr;
}

void BoundaryExchange::forget_expected() {
  for (auto& [name, expected] : expected_) {
    (void)in_.transport.wait(std::move(expected.operation), absl::ZeroDuration());
  }
  expected_.clear();
}

absl::Status BoundaryExchange::receive(Rank from, BoundaryDirection direction,
                                       MicroBatch micro_batch, std::span<std::byte> into) {
  const BoundaryName name{commit_, direction, micro_batch};
  View after;
  while (true) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, in_.views.pass(after));
    const absl::Status status =
        is_pulled(*plan) ? pull(*plan, from, name, into) : receive_pushed(*plan, from, name, into);
    if (status.ok()) return note_received(name, into);
    in_.report_trouble(plan->view, status);
    after = plan->view;
  }
}

absl::Status BoundaryExchange::note_received(const BoundaryName& name,
                                             std::span<const std::byte> bytes) {
  const Fingerprint now = fingerprint(bytes);
  const absl::Status status = in_.received.note(name, now);
  if (const auto before = in_.received.find(name); is_contradiction(status) && before)
    in_.witnesses.add(to_string(name), *before, now, {}, bytes);
  return status;
}

absl::Status BoundaryExchange::receive_pushed(const Plan& plan, Rank from, const BoundaryName& name,
                                              std::span<std::byte> into) {
  std::unique_ptr<TransportOperation> operation = take_expected(plan.view, name, into);
  if (!operation) operation = in_.transport.start_receive(from, push_tag(plan.view, name), into);
  return wait_for_message(in_.transport, std::move(operation), in_.deadline, in_.idle_work);
}

absl::Status BoundaryExchange::pull(const Plan& plan, Rank from, const BoundaryName& name,
                                    std::span<std::byte> into) {
  CHECK(take_expected(plan.view, name, into) == nullptr)
      << to_string(name) << " is pulled in the view in which it was expected";
  {
    const MutexLock lock(mutex_);
    awaited_ = name;
  }
  Repeats repeats;
  for (bool asks = true; !take_arrived(name, into);) {
    if (asks)
      in_.sender.send(from, plan.view, MessageKind::kWantBoundary, encode(NamedBoundary{name, {}}));
    ASSIGN_OR_RETURN(const bool signalled, in_.views.wait_signal());
    asks = !signalled && repeats.is_due();
    if (in_.views.newest_view() != plan.view)
      return Cancelled(absl::StrCat("view ", plan.view.value, " is over"));
  }
  return absl::OkStatus();
}

bool BoundaryExchange::take_arrived(const BoundaryName& name, std::span<std::byte> into) {
  const MutexLock lock(mutex_);
  const auto found = arrived_.find(name);
  if (found == arrived_.end()) return false;
  CHECK(found->second.size() == into.size())
      << to_string(name) << " has " << found->second.size() << " bytes, not " << into.size();
  std::memcpy(into.data(), found->second.data(), into.size());
  arrived_.erase(found);
  awaited_.reset();  // an answer to a repeated request may still come
  return true;
}

void BoundaryExchange::finish() {
  forget_expected();
  for (Pushed& pushed : pushed_) {
    // An error is the receiver's affair: it asks again in the next view.
    (void)in_.transport.wait(std::move(pushed.operation), in_.deadline);
  }
  pushed_.clear();
}

void BoundaryExchange::on_wanted(Rank from, View view, const BoundaryName& name) {
  const auto message = in_.log.find_or_wait(name, {from});
  if (message) answer(from, view, name, *message);
}

void BoundaryExchange::on_arrived(const NamedBoundary& message) {
  const MutexLock lock(mutex_);
  if (awaited_ != message.name) return;
  arrived_[message.name].assign(message.bytes.begin(), message.bytes.end());
}

absl::Status BoundaryExchange::on_audit(const BoundaryName& name,
                                        const Fingerprint& fingerprint) const {
  const absl::Status status = in_.received.compare(name, fingerprint);
  if (const auto before = in_.received.find(name); is_contradiction(status) && before)
    in_.witnesses.add(to_string(name), *before, fingerprint, {}, {});
  return status;
}

void BoundaryExchange::on_view() {
  in_.log.forget_waiting();
  const MutexLock lock(mutex_);
  arrived_.clear();
}

}  // namespace evermoe
