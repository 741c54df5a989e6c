#include "worker/standby_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"

namespace evermoe {
namespace {

// A standby may wait for as long as its job lasts.
constexpr absl::Duration kLookAgain = absl::Hours(1);

}  // namespace

StandbyLine::StandbyLine(const std::string& agent) {
  const MutexLock lock(mutex_);
  call_.reset(new ControlCall(agent, StreamNumber(1), *this));
  CHECK(call_->send({0, WorkerHello{::getpid()}}));
}

// Not under the lock: it waits for events that may want it.
StandbyLine::~StandbyLine() {
  std::unique_ptr<ControlCall> call;
  {
    const MutexLock lock(mutex_);
    call = std::move(call_);
  }
}

void StandbyLine::say(ControlMessage message) {
  const MutexLock lock(mutex_);
  CHECK(call_->send({0, std::move(message)})) << "the agent does not read";
}

void StandbyLine::put(GivenState given) {
  {
    const MutexLock lock(mutex_);
    orders_.emplace_back(std::move(given));
  }
  changed_.notify_all();
}

StandbyLine::Order StandbyLine::next_order() {
  MutexLock lock(mutex_);
  const auto has_order = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !orders_.empty(); };
  while (!changed_.wait_for(lock, kLookAgain, has_order)) {
  }
  Order order = std::move(orders_.front());
  orders_.pop_front();
  return order;
}

void StandbyLine::on_envelope(StreamNumber, Envelope envelope) noexcept {
  auto* const role = std::get_if<TakeRole>(&envelope.message);
  auto* const wanted = std::get_if<JoinerWanted>(&envelope.message);
  if (role == nullptr && wanted == nullptr) return;
  {
    const MutexLock lock(mutex_);
    is_over_ = is_over_ || role != nullptr;
    if (role != nullptr)
      orders_.emplace_back(std::move(*role));
    else
      orders_.emplace_back(std::move(*wanted));
  }
  changed_.notify_all();
}

// Nobody can give it a role any more, or start another one while it lives.
void StandbyLine::on_broken(StreamNumber, const std::string& why) noexcept {
  {
    const MutexLock lock(mutex_);
    if (is_over_) return;
  }
  log_error("the agent is gone: " + why);
  ::_exit(1);
}

void write_to(const std::string& log_path) {
  const int log = ::open(log_path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (log < 0) return;
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::close(log);
}

WorkerOptions options_with(const TakeRole& role, WorkerOptions options) {
  write_to(role.log_path);
  options.is_standby = false;
  options.rank = role.rank;
  options.since = role.since;
  options.start = role.start;
  options.term = role.term;
  log_info(absl::StrCat("the standby that is process ", ::getpid(), " takes this role"));
  return options;
}

}  // namespace evermoe
