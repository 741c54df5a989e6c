#include "train/layers/deferred_gradients.h"

#include <algorithm>
#include <set>
#include <utility>

namespace evermoe {

void DeferredGradients::add(int64_t bytes, std::function<void()> work,
                            std::span<OperatorDeferral* const> operators) {
  while (bytes_ + bytes > bytes_max_ && run_one()) continue;
  waiting_.push_back({bytes, std::move(work), {operators.begin(), operators.end()}});
  for (OperatorDeferral* const one : operators) ++one->waiting_;
  bytes_ += bytes;
  if (bytes_ > bytes_max_ || bytes_max_ == 0) run_one();  // it alone is more than what may be kept
}

bool DeferredGradients::run_one() {
  if (waiting_.empty()) return false;
  // Taken out first, so that an error leaves nothing that would be computed twice.
  const Deferred oldest = std::move(waiting_.front());
  waiting_.pop_front();
  forget(oldest);
  const at::NoGradGuard no_grad;
  oldest.work();
  return true;
}

void DeferredGradients::run_of(const OperatorDeferral& of_operator) {
  if (of_operator.is_empty()) return;
  const at::NoGradGuard no_grad;
  for (const Deferred& deferred : take_of(of_operator)) deferred.work();
}

// From the newest to the oldest: what shares an operator with one that is taken goes before it.
std::deque<DeferredGradients::Deferred> DeferredGradients::take_of(
    const OperatorDeferral& of_operator) {
  std::set<const OperatorDeferral*> taken_of = {&of_operator};
  std::deque<Deferred> taken, left;
  for (auto one = waiting_.rbegin(); one != waiting_.rend(); ++one) {
    const bool is_taken = std::ranges::any_of(
        one->operators, [&](const OperatorDeferral* op) { return taken_of.contains(op); });
    if (is_taken) {
      taken_of.insert(one->operators.begin(), one->operators.end());
      forget(*one);
    }
    (is_taken ? taken : left).push_front(std::move(*one));
  }
  waiting_ = std::move(left);
  return taken;
}

void DeferredGradients::forget(const Deferred& deferred) {
  bytes_ -= deferred.bytes;
  for (OperatorDeferral* const one : deferred.operators) --one->waiting_;
}

void DeferredGradients::run_all() {
  while (run_one()) continue;
}

void DeferredGradients::clear() {
  for (const Deferred& deferred : waiting_) forget(deferred);
  waiting_.clear();
}

}  // namespace evermoe
