#include "base/fault_point.h"

#include <atomic>
#include <map>

#include "absl/synchronization/mutex.h"

namespace evermoe {
namespace {

std::atomic<bool> armed{false};
absl::Mutex mutex(absl::kConstInit);
FaultHandler& handler() {
  static auto& instance = *new FaultHandler;
  return instance;
}
std::map<std::string, int64_t>& reached() {
  static auto& instance = *new std::map<std::string, int64_t>;
  return instance;
}

}  // namespace

void arm_fault_points(FaultHandler new_handler) {
  absl::MutexLock lock(&mutex);
  handler() = std::move(new_handler);
  reached().clear();
  armed.store(static_cast<bool>(handler()), std::memory_order_release);
}

void fault_point(const char* name) {
  if (!armed.load(std::memory_order_acquire)) return;
  FaultHandler current;
  int64_t reached_before = 0;
  {
    absl::MutexLock lock(&mutex);
    current = handler();
    reached_before = reached()[name]++;
  }
  if (current) current(name, reached_before);
}

}  // namespace evermoe
