// For tests: a job of real processes that can be killed, stopped and replaced. Each rank is a
// forked process; the test's own process never touches a transport, so that forking stays safe.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/transport/rank_threads_testing.h"
#include "comm/transport/transport_testing.h"

namespace evermoe {

inline constexpr int kRanksMax = 8;

// Shared by the processes of one job.
struct Blackboard {
  struct Entry {
    std::atomic<bool> has_address{false};
    char address[4096];
    std::atomic<uint32_t> since{0};
    std::atomic<int> progress{0};  // what the test waits for
    std::atomic<bool> is_told{false};
    std::atomic<int64_t> failed_at_ns{0};
    std::atomic<int64_t> took_ns{0};
    char message[512];
  };
  std::array<Entry, kRanksMax> entries;
  std::atomic<uint32_t> last_ended{0};  // views up to this one are over
  std::atomic<uint32_t> view{0};        // the addresses are those of this view
};

inline int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

inline bool accuses(const absl::Status& status, int rank) {
  return absl::IsUnavailable(status) && accused_rank(status) == Rank(rank);
}

// What a rank's body sees.
class Participant {
 public:
  Participant(Transport& own_transport, Blackboard& board)
      : transport(own_transport),
        board_(board),
        entry_(board.entries[static_cast<size_t>(transport.rank().value)]) {}

  void reach(int progress) { entry_.progress = progress; }
  bool is_told() const { return entry_.is_told; }
  bool wait_until_told() {
    return eventually([this] { return is_told(); });
  }
  void report_failure(const absl::Status& status) {
    entry_.failed_at_ns = now_ns();
    std::strncpy(entry_.message, status.ToString().c_str(), sizeof(entry_.message) - 1);
  }
  void report_duration(absl::Duration took) { entry_.took_ns = absl::ToInt64Nanoseconds(took); }

  View since() const { return View(entry_.since); }
  View last_ended() const { return View(board_.last_ended); }
  // Waits until the addresses are those of `view` or a later one.
  bool wait_for_view(View view) {
    return eventually([&] { return View(board_.view) >= view; });
  }
  std::vector<PeerAddress> table() const {
    std::vector<PeerAddress> result;
    for (int i = 0; i < transport.size(); ++i) {
      const Blackboard::Entry& entry = board_.entries[static_cast<size_t>(i)];
      result.push_back({entry.address, View(entry.since)});
    }
    return result;
  }

  Transport& transport;

 private:
  Blackboard& board_;
  Blackboard::Entry& entry_;
};

// The body returns whether everything was as it should be.
using ParticipantBody = std::function<bool(Participant&)>;

class Job {
 public:
  // Bodies begin connected with everybody, or knowing nobody.
  enum class Begin { kConnected, kAlone };

  Job(TransportKind kind, int size, ParticipantBody body, Begin begin = Begin::kConnected)
      : kind_(kind), size_(size), body_(std::move(body)), begin_(begin) {
    void* const memory = ::mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    board_ = new (memory) Blackboard;
    for (int i = 0; i < size; ++i) start(i, 0);
  }

  ~Job() {
    for (int i = 0; i < size_; ++i) {
      if (pid(i) > 0) send_signal(i, SIGKILL), succeeds(i);
    }
    ::munmap(board_, sizeof(Blackboard));
  }

  Blackboard::Entry& operator[](int rank) { return board_->entries[static_cast<size_t>(rank)]; }
  bool reaches(int rank, int progress) {
    return eventually([&] { return (*this)[rank].progress >= progress; });
  }
  void send_signal(int rank, int number) { ::kill(pid(rank), number); }
  void tell(int rank) { (*this)[rank].is_told = true; }

  // Waits for the end of a rank's process: whether its body returned true.
  bool succeeds(int rank) {
    int status = 0;
    ::waitpid(std::exchange(pid(rank), -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  void kill(int rank) {
    send_signal(rank, SIGKILL);
    succeeds(rank);
  }
  void end_views(uint32_t last) { board_->last_ended = last; }
  // A new process plays the rank, which nobody plays now.
  void start(int rank, uint32_t since) {
    Blackboard::Entry& entry = (*this)[rank];
    entry.has_address = false;
    entry.progress = 0;
    entry.since = since;
    pid(rank) = ::fork();
    if (pid(rank) == 0) ::_exit(play(rank) ? 0 : 1);
  }
  // Tells the addresses of all as those of `view`.
  bool announce(uint32_t view) {
    if (!eventually([this] { return has_all_addresses(); })) return false;
    board_->view = view;
    return true;
  }

 private:
  pid_t& pid(int rank) { return pids_[static_cast<size_t>(rank)]; }
  bool has_all_addresses() {
    for (int i = 0; i < size_; ++i) {
      if (!(*this)[i].has_address) return false;
    }
    return true;
  }

  bool play(int rank) {
    auto listener = listen(kind_);
    Blackboard::Entry& entry = (*this)[rank];
    std::strncpy(entry.address, listener->address().c_str(), sizeof(entry.address) - 1);
    entry.has_address = true;
    auto transport = enter(*listener, rank);
    if (!transport.ok()) return false;
    Participant participant(**transport, *board_);
    return body_(participant);
  }

  absl::StatusOr<std::unique_ptr<Transport>> enter(TransportListener& listener, int rank) {
    if (begin_ == Begin::kAlone) return listener.open(Rank(rank), size_, View((*this)[rank].since));
    if (!eventually([this] { return has_all_addresses(); }))
      return Timeout("not everybody has an address");
    std::vector<std::string> addresses;
    for (int i = 0; i < size_; ++i) addresses.push_back((*this)[i].address);
    auto transport = listener.connect(Rank(rank), addresses);
    if (transport.ok()) connect_with_all(**transport);
    return transport;
  }

  const TransportKind kind_;
  const int size_;
  const ParticipantBody body_;
  const Begin begin_;
  Blackboard* board_ = nullptr;
  std::array<pid_t, kRanksMax> pids_{};
};

}  // namespace evermoe
