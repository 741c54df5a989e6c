#include "cluster/control_client.h"

#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace evermoe {

ControlClient::ControlClient(ControlClientOptions options) : options_(std::move(options)) {}

ControlClient::~ControlClient() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopping_changed_.notify_all();
  if (heart_.joinable()) heart_.join();
  std::unique_ptr<ControlCall> call;
  {
    const std::lock_guard lock(mutex_);
    call = std::move(call_);
  }
  call.reset();  // not under the lock: it waits for events that may want it
}

void ControlClient::attach(ControlHandlers handlers) {
  handlers_ = std::move(handlers);
  {
    // Events of the call wait until it is there.
    const std::lock_guard lock(mutex_);
    CHECK(call_ == nullptr) << "attached already";
    call_.reset(new ControlCall(options_.agent, StreamNumber(1), *this));
    put(WorkerHello{::getpid()});
  }
  heart_ = std::thread([this] { beat(); });
}

// REQUIRES: mutex_ is held.
void ControlClient::put(ControlMessage message) {
  if (call_ == nullptr) return;
  CHECK(call_->send({0, std::move(message)})) << "the agent does not read what it is sent";
}

void ControlClient::send(MemberMessage message) {
  const std::lock_guard lock(mutex_);
  put(MemberSaid{options_.rank, options_.since, std::move(message)});
}

void ControlClient::on_envelope(StreamNumber, Envelope envelope) {
  if (std::holds_alternative<Welcome>(envelope.message)) return register_member();
  if (auto* const order = std::get_if<SendOrder>(&envelope.message)) handlers_.on_order(std::move(order->message));
}

void ControlClient::register_member() {
  {
    const std::lock_guard lock(mutex_);
    MemberJoined joined = handlers_.describe();
    joined.rank = options_.rank;
    joined.since = options_.since;
    put(std::move(joined));
  }
  handlers_.on_registered();
}

void ControlClient::on_broken(StreamNumber, const std::string& why) { handlers_.on_lost(why); }

void ControlClient::beat() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    put(MemberAlive{options_.rank, options_.since, handlers_.entered()});
    stopping_changed_.wait_for(lock, absl::ToChronoMicroseconds(options_.heartbeat), [this] { return stopping_; });
  }
}

}  // namespace evermoe
