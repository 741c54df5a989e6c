#include "control/health/health_watch.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace evermoe {
namespace {

// A measurement takes some milliseconds where nothing hangs.
constexpr absl::Duration kEndMax = absl::Seconds(2);

}  // namespace

void HealthSchedule::on_verdict(absl::Duration now, bool is_fit) {
  due_ = now + (is_fit ? pauses_.of_fit : pause_);
  pause_ = is_fit ? pauses_.first : std::min(2 * pause_, pauses_.longest);
}

HealthWatch::HealthWatch(Measure measure, absl::Duration answer_max)
    : measure_(std::move(measure)), answer_max_(answer_max), shared_(std::make_shared<Shared>()) {}

HealthWatch::~HealthWatch() {
  Shared& shared = *shared_;
  MutexLock lock(shared.mutex);
  shared.changed.wait_for(lock, kEndMax, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
    return !shared.is_measuring;
  });
}

void HealthWatch::look(absl::Duration now) {
  if (began_ || now < schedule_.due()) return;
  {
    const MutexLock lock(shared_->mutex);
    if (shared_->is_measuring) return;
    shared_->is_measuring = true;
    shared_->part = "health";
  }
  began_ = now;
  std::thread([shared = shared_, measure = measure_] {
    NodeHealth health = measure([&](const std::string& part) {
      const MutexLock lock(shared->mutex);
      shared->part = part;
    });
    // At once: who takes it may begin the next.
    const MutexLock lock(shared->mutex);
    shared->measured.put(std::move(health));
    shared->is_measuring = false;
    shared->changed.notify_all();
  }).detach();
}

std::optional<NodeHealth> HealthWatch::take(absl::Duration now) {
  if (auto measured = shared_->measured.take(); !measured.empty()) {
    began_.reset();
    return std::move(measured.back());
  }
  if (!began_ || now < *began_ + answer_max_) return std::nullopt;
  began_.reset();
  const MutexLock lock(shared_->mutex);
  NodeHealth hanging;
  hanging.unanswered = shared_->part;
  return hanging;
}

}  // namespace evermoe
