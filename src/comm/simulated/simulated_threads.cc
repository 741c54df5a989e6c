#include "comm/simulated/simulated_threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {
namespace {

// So many turns and events without any time passing are a loop that never ends.
constexpr int64_t kStepsAtOneTimeMax = 20'000'000;

}  // namespace

void SimulatedThreadGroup::touch() {
  for (SimulatedThread* const thread : threads) scheduler->look_at(*thread);
}

SimulatedThreads::SimulatedThreads(uint64_t seed, absl::Duration time_max, bool one_core)
    : time_max_(time_max), one_core_(one_core), random_(seed) {}

SimulatedThreads::~SimulatedThreads() {
  join_left();
  for (const auto& thread : threads_) CHECK(!thread->thread.joinable()) << "destroyed inside run()";
}

void SimulatedThreads::add(SimulatedThreadGroup& group, int index, std::function<void()> body) {
  join_left();
  threads_.push_back(
      std::make_unique<SimulatedThread>(thread_count_++, group, index, std::move(body)));
  group.scheduler = this;
  group.threads.push_back(threads_.back().get());
  look_at(*threads_.back());
}

void SimulatedThreads::at(absl::Duration time, std::function<void()> event) {
  if (closing_) return;
  events_.push_back({std::max(time, now_), event_count_++, std::move(event)});
  std::push_heap(events_.begin(), events_.end(), later);
}

bool SimulatedThreads::run(std::function<void()> kill_all) {
  CHECK(!kill_all_) << "run() is called twice";
  kill_all_ = std::move(kill_all);
  core_ = ::sched_getcpu();
  if (SimulatedThread* const first = choose(); first != nullptr) {
    resume(first);
    finished_.acquire();
  }
  running_ = nullptr;
  join_left();
  return stuck_.empty();
}

// Joins the threads that have left; the one that is just leaving and runs events comes later.
void SimulatedThreads::join_left() {
  for (; joined_ < left_.size() && left_[joined_].get() != running_; ++joined_)
    left_[joined_]->thread.join();
}

void SimulatedThreads::resume(SimulatedThread* thread) {
  running_ = thread;
  ++switches_;
  record('r', thread->group.number, thread->index);
  if (!thread->thread.joinable()) thread->thread = std::thread([this, thread] { play(*thread); });
  thread->baton.release();  // `thread` lives until all threads have been joined
}

void SimulatedThreads::play(SimulatedThread& thread) {
  if (one_core_ && core_ >= 0) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(static_cast<size_t>(core_), &cores);
    ::pthread_setaffinity_np(::pthread_self(), sizeof(cores),
                             &cores);  // only faster: no matter if it fails
  }
  thread.baton.acquire();
  thread.body();
  thread.body = nullptr;
  leave();
}

void SimulatedThreads::leave() {
  SimulatedThread* const self = running_;
  record('l', self->group.number, self->index);
  awake_.erase(self->number);
  std::erase(self->group.threads, self);
  const auto at = std::find_if(threads_.begin(), threads_.end(),
                               [&](const auto& t) { return t.get() == self; });
  left_.push_back(std::move(*at));
  threads_.erase(at);
  if (SimulatedThread* const next = choose(); next != nullptr) return resume(next);
  finished_.release();
}

void SimulatedThreads::hand_over() {
  SimulatedThread* const self = running_;
  SimulatedThread* const next = choose();
  if (next == self) return;
  resume(next);
  self->baton.acquire();
}

void SimulatedThreads::offer_switch() { hand_over(); }

void SimulatedThreads::await_turn() {
  while (running_->group.paused && !running_->group.killed) hand_over();
}

void SimulatedThreads::block(const bool& awaited, absl::Duration timeout,
                             std::function<std::string()> what) {
  SimulatedThread& self = *running_;
  self.awaited = &awaited;
  self.wakes_at = now_ + std::max(timeout, absl::ZeroDuration());
  self.waits_for = std::move(what);
  if (self.wakes_at < absl::InfiniteDuration()) deadlines_.emplace(self.wakes_at, &self);
  while (!awaited && !self.group.killed && now_ < self.wakes_at) hand_over();
  await_turn();
  deadlines_.erase({self.wakes_at, &self});
  self.awaited = nullptr;
  self.waits_for = nullptr;
}

bool SimulatedThreads::is_runnable(const SimulatedThread& thread) const {
  if (thread.group.killed) return true;
  if (thread.group.paused) return false;
  return thread.awaited == nullptr || *thread.awaited || thread.wakes_at <= now_;
}

SimulatedThread* SimulatedThreads::draw_runnable() {
  runnable_.clear();
  std::erase_if(awake_, [this](const auto& entry) {
    if (!is_runnable(*entry.second)) return true;
    runnable_.push_back(entry.second);
    return false;
  });
  return runnable_.empty() ? nullptr : runnable_[draw(runnable_.size())];
}

// The thread to run next; lets virtual time pass until there is one. Null if it is all over.
SimulatedThread* SimulatedThreads::choose() {
  while (true) {
    if (++steps_at_this_time_ > kStepsAtOneTimeMax && !closing_)
      give_up("time stands still: a loop without end");
    if (ending_ && !closing_) {
      closing_ = true;
      events_.clear();
      kill_all_();
    }
    if (SimulatedThread* const next = draw_runnable(); next != nullptr) return next;
    if (threads_.empty() && events_.empty()) return nullptr;
    pass_time();
  }
}

absl::Duration SimulatedThreads::earliest_deadline() const {
  const auto first = std::find_if(deadlines_.begin(), deadlines_.end(),
                                  [](const auto& entry) { return !entry.second->group.paused; });
  return first == deadlines_.end() ? absl::InfiniteDuration() : first->first;
}

// Everybody waits: the next thing to happen is an event or the earliest deadline.
void SimulatedThreads::pass_time() {
  absl::Duration next = earliest_deadline();
  const bool is_event = !events_.empty() && events_.front().time <= next;
  if (is_event) next = events_.front().time;
  if (next == absl::InfiniteDuration()) return give_up("all wait for ever");
  if (next > time_max_) return give_up("the longest time has passed");
  if (next > now_) steps_at_this_time_ = 0;
  now_ = std::max(now_, next);
  for (const auto& [time, thread] : deadlines_) {
    if (time > now_) break;
    look_at(*thread);
  }
  if (is_event) run_next_event();
}

void SimulatedThreads::run_next_event() {
  std::pop_heap(events_.begin(), events_.end(), later);
  const Event event = std::move(events_.back());
  events_.pop_back();
  record('e', event.number);
  in_event_ = true;
  event.what();
  in_event_ = false;
}

void SimulatedThreads::give_up(std::string why) {
  stuck_ = absl::StrCat(why, "\n", waiting());
  ending_ = true;
}

absl::Duration SimulatedThreads::draw_delay(absl::Duration longest) {
  return absl::Nanoseconds(
      static_cast<int64_t>(draw(static_cast<uint64_t>(absl::ToInt64Nanoseconds(longest)) + 1)));
}

void SimulatedThreads::record(char what, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e,
                              int64_t f) {
  const std::array<int64_t, 8> entry{what, absl::ToInt64Nanoseconds(now_), a, b, c, d, e, f};
  transcript_.update(std::as_bytes(std::span(entry)));
}

std::string SimulatedThreads::waiting() const {
  if (!stuck_.empty()) return stuck_;
  std::string text =
      absl::StrCat("at ", absl::FormatDuration(now_), ", ", events_.size(), " events to come\n");
  for (const auto& thread : threads_) {
    const bool waits = thread->awaited != nullptr && !*thread->awaited;
    absl::StrAppend(&text, "process ", thread->group.number, " thread ", thread->index,
                    thread->group.killed   ? " (killed)"
                    : thread->group.paused ? " (stopped)"
                                           : "",
                    ": ", waits ? thread->waits_for() : "can run");
    if (waits) absl::StrAppend(&text, ", until ", absl::FormatDuration(thread->wakes_at));
    text += "\n";
  }
  return text;
}

}  // namespace evermoe
