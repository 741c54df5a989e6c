// The clock, the network and the baton of an InProcessCluster.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/string_view.h"
#include "comm/in_process_transport.h"
#include "comm/inbox.h"

namespace evermoe {

// Threads: every method is called by the thread that holds the baton, except take_baton().
class InProcessCluster::Scheduler {
 public:
  Scheduler(int size, InProcessOptions options);

  int size() const { return static_cast<int>(ranks_.size()); }
  const InProcessOptions& options() const { return options_; }
  absl::Duration now() const { return now_; }
  int64_t calls(Rank rank) const { return at(rank).calls; }
  Fingerprint transcript() const { return transcript_.finish(); }

  // Blocks the thread of a rank until it may run for the first time.
  void take_baton(Rank rank);
  // Ends the thread of a rank; peers notice it unless it has said goodbye.
  void leave(Rank rank);

  // Counts a call and kills the rank if its time has come. Ok, or why the rank can do nothing more.
  absl::Status begin_call(Rank rank, absl::string_view name, Rank peer, const Tag& tag, size_t bytes);
  // May let another rank run.
  void offer_switch(Rank rank);

  void send(Rank from, PendingOperation& send);
  void receive(Rank to, PendingOperation& receive);
  // Lets others run until the operation is finished or `timeout` has passed.
  void block(Rank rank, PendingOperation& operation, absl::Duration timeout);
  void withdraw(Rank rank, PendingOperation& operation);
  void revoke(Rank rank, View view, const absl::Status& reason);
  void say_goodbye(Rank rank);

 private:
  struct RankState {
    std::vector<Inbox> from;                // by sender
    std::vector<absl::Status> lost;         // by peer: why it answers no more
    std::vector<PendingOperation*> sending; // large sends in flight
    std::optional<View> revoked;
    absl::Status revoke_reason;
    absl::Status stopped;  // why this rank itself can do nothing more
    int64_t calls = 0;
    bool gone = false;     // its thread has left
    const PendingOperation* waits_for = nullptr;
    absl::Duration wakes_at;
    std::condition_variable baton;
  };

  // Something that happens at a virtual time: a message arrives, or a peer's end is noticed.
  struct Event {
    Rank from;
    Rank to;
    std::unique_ptr<KeptMessage> message;  // none: the end of `from`
    PendingOperation* large_send = nullptr;
    absl::Status end;
  };
  using EventKey = std::pair<absl::Duration, int64_t>;  // time and order of creation

  RankState& at(Rank rank) { return *ranks_[static_cast<size_t>(rank.value)]; }
  const RankState& at(Rank rank) const { return *ranks_[static_cast<size_t>(rank.value)]; }
  Inbox& inbox(Rank to, Rank from) { return at(to).from[static_cast<size_t>(from.value)]; }

  uint64_t draw(uint64_t bound) { return random_() % bound; }
  absl::Duration draw_delay(absl::Duration longest);
  void record(absl::string_view what, Rank rank, Rank peer, const Tag& tag, uint64_t number);
  void schedule_message(Rank from, PendingOperation& send);
  void schedule_end(Rank rank, const absl::Status& end);
  void apply(Event event);
  void notice_end(Rank rank, Rank ended, const absl::Status& end);
  void fail_large_sends(Rank rank, Rank to, std::optional<View> last, const absl::Status& reason);
  bool is_runnable(const RankState& state) const;
  // The rank to run next; lets virtual time pass until there is one. None if all threads have left.
  std::optional<Rank> choose();
  void pass_time();
  void hand_over(Rank from, bool comes_back);

  const InProcessOptions options_;
  std::mutex mutex_;  // guards running_; what the baton's holder changes is handed over with it
  std::optional<Rank> running_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::map<EventKey, Event> events_;
  std::map<std::pair<std::pair<Rank, Rank>, Tag>, absl::Duration> last_arrival_;  // of each stream
  std::map<std::pair<Rank, Rank>, absl::Duration> last_arrival_of_pair_;
  int64_t event_count_ = 0;
  absl::Duration now_;
  std::mt19937_64 random_;
  FingerprintStream transcript_;
};

}  // namespace evermoe
