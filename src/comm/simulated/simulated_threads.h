// Threads of which exactly one runs at a time, a clock that moves only while all of them wait, and
// events on that clock. Everything is chosen from one seed.
//
// The right to run is a baton. Whoever holds it may call everything here; the thread to run next is
// drawn from those that can run, in the order of their creation, so a run repeats exactly. Time
// passes in the context of the thread that waits last: events run there.
//
// A thread that holds a std::mutex must not hand over: the thread that runs next could wait for the
// mutex, and nobody would ever run again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <semaphore>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/fingerprint.h"

namespace evermoe {

class SimulatedThreads;
struct SimulatedThread;

// What holds for all threads of one process.
struct SimulatedThreadGroup {
  // To be called whenever something may have changed that one of them waits for.
  void touch();

  int64_t number = 0;
  bool paused = false;  // none of them runs
  bool killed = false;  // all of them run, whatever they wait for
  SimulatedThreads* scheduler = nullptr;
  std::vector<SimulatedThread*> threads;  // that have not returned
};

struct SimulatedThread {
  SimulatedThread(int64_t n, SimulatedThreadGroup& owner, int i, std::function<void()> what)
      : number(n), group(owner), index(i), body(std::move(what)) {}

  const int64_t number;  // in order of creation
  SimulatedThreadGroup& group;
  const int index;
  std::function<void()> body;
  const bool* awaited = nullptr;  // it waits until this is true or until wakes_at
  absl::Duration wakes_at;
  std::function<std::string()> waits_for;  // for people
  std::thread thread;                      // from its first turn on
  std::binary_semaphore baton{0};          // given to it by the thread that ran before
};

class SimulatedThreads {
 public:
  // `one_core`: all threads run where run() was called, which makes switching three times as fast.
  SimulatedThreads(uint64_t seed, absl::Duration time_max, bool one_core);
  ~SimulatedThreads();

  void add(SimulatedThreadGroup& group, int index, std::function<void()> body);
  // At virtual time `time`, or now if that has passed.
  void at(absl::Duration time, std::function<void()> event);

  // True if it came to its end: all threads have returned and no event is left, or end(). False at
  // time_max, or if nothing can ever happen again. `kill_all` has to make all groups killed.
  bool run(std::function<void()> kill_all);
  void end() { ending_ = true; }
  bool is_closing() const { return closing_; }  // all groups have been killed

  // May let another thread run.
  void offer_switch();
  // Lets others run until `awaited`, the thread's group is killed, or `timeout` has passed.
  // `what` tells people what for.
  void block(const bool& awaited, absl::Duration timeout, std::function<std::string()> what);
  // Returns when the thread's group is not paused.
  void await_turn();
  // The thread may be able to run: what it waits for has perhaps come.
  void look_at(SimulatedThread& thread) { awake_.emplace(thread.number, &thread); }

  // The thread that runs; null in events and outside run().
  SimulatedThread* running() const { return in_event_ ? nullptr : running_; }
  absl::Duration now() const { return now_; }
  uint64_t draw(uint64_t bound) { return random_() % bound; }
  absl::Duration draw_delay(absl::Duration longest);

  // Adds to the transcript.
  void record(char what, int64_t a, int64_t b = 0, int64_t c = 0, int64_t d = 0, int64_t e = 0,
              int64_t f = 0);
  void record(std::span<const std::byte> bytes) { transcript_.update(bytes); }
  Fingerprint transcript() const { return transcript_.finish(); }
  int64_t switches() const { return switches_; }

  // Who waits for what: now, or when run() gave up.
  std::string waiting() const;

 private:
  struct Event {
    absl::Duration time;
    int64_t number;  // order of creation
    std::function<void()> what;
  };
  static bool later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }

  bool is_runnable(const SimulatedThread& thread) const;
  SimulatedThread* choose();
  SimulatedThread* draw_runnable();
  absl::Duration earliest_deadline() const;
  void pass_time();
  void run_next_event();
  void give_up(std::string why);
  void hand_over();
  void leave();
  void resume(SimulatedThread* thread);
  void play(SimulatedThread& thread);
  void join_left();

  const absl::Duration time_max_;
  const bool one_core_;
  int core_ = 0;
  std::mt19937_64 random_;
  FingerprintStream transcript_;
  absl::Duration now_;
  std::vector<Event> events_;  // a heap
  int64_t event_count_ = 0;
  int64_t switches_ = 0;
  int64_t steps_at_this_time_ = 0;

  std::vector<std::unique_ptr<SimulatedThread>> threads_;  // that have not returned
  std::vector<std::unique_ptr<SimulatedThread>> left_;     // that have; to be joined
  size_t joined_ = 0;                                      // of left_
  int64_t thread_count_ = 0;                               // so far
  // All that can run, and some that cannot: nobody looks at thousands that wait.
  std::map<int64_t, SimulatedThread*> awake_;
  // Of those that wait, and not for ever.
  std::set<std::pair<absl::Duration, SimulatedThread*>> deadlines_;
  std::vector<SimulatedThread*> runnable_;  // of draw_runnable()
  SimulatedThread* running_ = nullptr;
  bool in_event_ = false;
  std::function<void()> kill_all_;
  bool ending_ = false;   // end() or give_up()
  bool closing_ = false;  // everybody has been killed because of that
  std::string stuck_;     // why it gave up

  std::binary_semaphore finished_{0};
};

}  // namespace evermoe
