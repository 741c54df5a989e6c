#include "control/wire/control_client.h"

#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace evermoe {
namespace {

// For an agent that has stopped.
constexpr absl::Duration kClientFarewellMax = absl::Seconds(5);

}  // namespace

ControlClient::ControlClient(ControlClientOptions options) : options_(std::move(options)) {}

ControlClient::~ControlClient() {
  detach();
  std::unique_ptr<ControlCall> call;
  {
    const MutexLock lock(mutex_);
    call = std::move(call_);
  }
  call.reset();  // not under the lock: it waits for events that may want it
}

void ControlClient::stop_beating() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stopping_changed_.notify_all();
  if (heart_.joinable()) heart_.join();
}

void ControlClient::attach(ControlHandlers handlers, absl::Duration heartbeat) {
  {
    const MutexLock handling(handling_);
    handlers_ = std::move(handlers);
    has_member_ = true;
    const MutexLock lock(mutex_);
    CHECK(call_ == nullptr) << "attached already";
    open_line();
  }
  heart_ = std::thread([this, heartbeat] { beat(heartbeat); });
}

void ControlClient::open_line() {
  call_.reset(new ControlCall(options_.agent, StreamNumber(1), *this));
  put(WorkerHello{::getpid()});
}

void ControlClient::report(WorkerReport report) {
  report.rank = options_.rank;
  const MutexLock lock(mutex_);
  if (call_ == nullptr && !stopping_) open_line();
  put(std::move(report));
}

void ControlClient::detach() {
  {
    const MutexLock handling(handling_);
    has_member_ = false;
  }
  stop_beating();
}

void ControlClient::close() {
  detach();
  std::unique_ptr<ControlCall> call;
  {
    const MutexLock lock(mutex_);
    call = std::move(call_);
  }
  if (call != nullptr) (void)call->finish(kClientFarewellMax);
}

void ControlClient::put(ControlMessage message) {
  if (call_ == nullptr) return;
  CHECK(call_->send({0, std::move(message)})) << "the agent does not read what it is sent";
}

void ControlClient::send(MemberMessage message) {
  const MutexLock lock(mutex_);
  put(MemberSaid{options_.rank, options_.since, std::move(message)});
}

void ControlClient::on_envelope(StreamNumber, Envelope envelope) noexcept {
  const MutexLock handling(handling_);
  if (!has_member_) return;
  if (const auto* const welcome = std::get_if<Welcome>(&envelope.message)) {
    handlers_.on_term(welcome->term);
    return register_member();
  }
  if (auto* const order = std::get_if<SendOrder>(&envelope.message))
    handlers_.on_order(std::move(order->message));
  if (const auto* const relieved = std::get_if<BecomeStandby>(&envelope.message))
    handlers_.on_relieved(*relieved);
}

void ControlClient::register_member() {
  {
    const MutexLock lock(mutex_);
    MemberJoined joined = handlers_.describe();
    joined.rank = options_.rank;
    joined.since = options_.since;
    put(std::move(joined));
  }
  handlers_.on_registered();
}

void ControlClient::on_broken(StreamNumber, const std::string& why) noexcept {
  const MutexLock handling(handling_);
  if (has_member_) handlers_.on_lost(why);
}

void ControlClient::beat(absl::Duration heartbeat) {
  while (true) {
    const std::optional<MemberAlive> alive = sign_of_life();
    MutexLock lock(mutex_);
    if (!alive || stopping_) return;
    put(*alive);
    stopping_changed_.wait_for(
        lock, heartbeat, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
  }
}

// nullopt: the member is gone.
std::optional<MemberAlive> ControlClient::sign_of_life() {
  const MutexLock handling(handling_);
  if (!has_member_) return std::nullopt;
  return MemberAlive{options_.rank,
                     options_.since,
                     handlers_.entered(),
                     handlers_.waits(),
                     handlers_.take_step_times(),
                     handlers_.take_link_times()};
}

}  // namespace evermoe
