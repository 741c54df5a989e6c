#include "train/layers/deferred_gradients.h"

#include <utility>

namespace evermoe {

void DeferredGradients::add(int64_t bytes, std::function<void()> work, int64_t* count) {
  while (bytes_ + bytes > bytes_max_ && run_one()) continue;
  waiting_.push_back({bytes, std::move(work), count});
  if (count != nullptr) ++*count;
  bytes_ += bytes;
  if (bytes_ > bytes_max_ || bytes_max_ == 0) run_one();  // it alone is more than what may be kept
}

bool DeferredGradients::run_one() {
  if (waiting_.empty()) return false;
  // Taken out first, so that an error leaves nothing that would be computed twice.
  const Deferred oldest = std::move(waiting_.front());
  waiting_.pop_front();
  bytes_ -= oldest.bytes;
  if (oldest.count != nullptr) --*oldest.count;
  const at::NoGradGuard no_grad;
  oldest.work();
  return true;
}

void DeferredGradients::run_all() {
  while (run_one()) continue;
}

void DeferredGradients::clear() {
  for (const Deferred& deferred : waiting_) {
    if (deferred.count != nullptr) --*deferred.count;
  }
  waiting_.clear();
  bytes_ = 0;
}

}  // namespace evermoe
