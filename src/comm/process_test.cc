// Real processes that are killed and stopped. Each rank is a forked process; the test's own process
// never touches a transport, so that forking stays safe.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/communicator.h"
#include "comm/deadline.h"
#include "comm/job_transport.h"
#include "comm/rank_threads_testing.h"

namespace evermoe {
namespace {

constexpr int kRanksMax = 8;
constexpr absl::Duration kPatience = absl::Seconds(20);
// The promise of transport.h, and what a test waits at most for it on a busy machine. How long the
// report really took is checked against the promise by its best of several attempts.
constexpr absl::Duration kReportMax = absl::Milliseconds(100);

// Shared by the processes of one job.
struct Blackboard {
  struct Entry {
    std::atomic<bool> has_address{false};
    char address[4096];
    std::atomic<int> progress{0};  // what the test waits for
    std::atomic<bool> is_told{false};
    std::atomic<int64_t> failed_at_ns{0};
    char message[512];
  };
  std::array<Entry, kRanksMax> entries;
};

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Yields until the condition holds; false after kPatience.
bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline(kPatience);
  while (!condition()) {
    if (deadline.passed()) return false;
    ::sched_yield();
  }
  return true;
}

// What a rank's body sees.
class Player {
 public:
  Player(Transport& transport, Blackboard::Entry& entry) : transport(transport), entry_(entry) {}

  void reach(int progress) { entry_.progress = progress; }
  bool wait_until_told() {
    return eventually([this] { return entry_.is_told.load(); });
  }
  void report_failure(const absl::Status& status) {
    entry_.failed_at_ns = now_ns();
    std::strncpy(entry_.message, std::string(status.message()).c_str(), sizeof(entry_.message) - 1);
  }

  Transport& transport;

 private:
  Blackboard::Entry& entry_;
};

// The body returns whether everything was as it should be.
using PlayerBody = std::function<bool(Player&)>;

class Job {
 public:
  Job(TransportKind kind, int size, const PlayerBody& body) : size_(size) {
    void* const memory = ::mmap(nullptr, sizeof(Blackboard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    board_ = new (memory) Blackboard;
    for (int i = 0; i < size; ++i) {
      pids_[static_cast<size_t>(i)] = ::fork();
      if (pids_[static_cast<size_t>(i)] == 0) ::_exit(play(kind, i, body) ? 0 : 1);
    }
  }

  ~Job() {
    for (int i = 0; i < size_; ++i) {
      if (pids_[static_cast<size_t>(i)] > 0) send_signal(i, SIGKILL), succeeds(i);
    }
    ::munmap(board_, sizeof(Blackboard));
  }

  Blackboard::Entry& operator[](int rank) { return board_->entries[static_cast<size_t>(rank)]; }
  bool reaches(int rank, int progress) {
    return eventually([&] { return (*this)[rank].progress >= progress; });
  }
  void send_signal(int rank, int number) { ::kill(pids_[static_cast<size_t>(rank)], number); }
  void tell(int rank) { (*this)[rank].is_told = true; }

  // Waits for the end of a rank's process: whether its body returned true.
  bool succeeds(int rank) {
    int status = 0;
    ::waitpid(std::exchange(pids_[static_cast<size_t>(rank)], -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  bool play(TransportKind kind, int rank, const PlayerBody& body) {
    auto listener = listen(kind);
    std::strncpy((*this)[rank].address, listener->address().c_str(), sizeof(Blackboard::Entry::address) - 1);
    (*this)[rank].has_address = true;
    std::vector<std::string> addresses;
    for (int i = 0; i < size_; ++i) {
      if (!eventually([&] { return (*this)[i].has_address.load(); })) return false;
      addresses.push_back((*this)[i].address);
    }
    auto transport = listener->connect(Rank(rank), addresses, kPatience);
    if (!transport.ok()) return false;
    Player player(**transport, (*this)[rank]);
    return body(player);
  }

  const int size_;
  Blackboard* board_ = nullptr;
  std::array<pid_t, kRanksMax> pids_{};
};

class ProcessTest : public testing::TestWithParam<TransportKind> {};

bool accuses(const absl::Status& status, int rank) {
  return absl::IsUnavailable(status) && accused_rank(status) == Rank(rank);
}

// Ranks 0 and 2 exchange 16 MB with rank 1 when it is killed; then they go on without it.
bool exchange_until_death(Player& player) {
  Transport& transport = player.transport;
  const int own = transport.rank().value;
  std::vector<std::byte> out(16 << 20, std::byte(own));
  std::vector<std::byte> in(out.size());
  Communicator world(transport, {Rank(0), Rank(1), Rank(2)}, {View(1), 0, kPatience});
  for (int round = 1;; ++round) {
    player.reach(round);
    const int peer = own == 1 ? round % 2 * 2 : 1;
    absl::Status status;
    if (own == 1 || round % 2 * 2 == own) {
      auto receiving = world.start_receive(peer, 1, in);
      auto sending = world.start_send(peer, 1, out);
      status = receiving.wait();
      if (status.ok()) status = sending.wait();
    }
    if (status.ok()) continue;
    player.report_failure(status);
    if (!accuses(status, 1)) return false;
    break;
  }
  Communicator survivors(transport, {Rank(0), Rank(2)}, {View(2), 0, kPatience});
  std::vector<int64_t> values(100'000, 1);
  if (!survivors.all_reduce<int64_t>(values, ReduceOp::kSum).ok() || values[99'999] != 2) return false;
  if (!survivors.barrier().ok()) return false;
  transport.close();
  return true;
}

TEST_P(ProcessTest, AKilledPeerIsReportedWithinThePromiseAndTheOthersGoOn) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int attempt = 0; attempt < 5; ++attempt) {
    Job job(GetParam(), 3, exchange_until_death);
    ASSERT_TRUE(job.reaches(1, 3 + attempt));
    const int64_t killed_at = now_ns();
    job.send_signal(1, SIGKILL);
    EXPECT_TRUE(job.succeeds(0)) << job[0].message;
    EXPECT_TRUE(job.succeeds(2)) << job[2].message;
    const int64_t reported_at = std::max(job[0].failed_at_ns.load(), job[2].failed_at_ns.load());
    ASSERT_GT(reported_at, killed_at);
    fastest = std::min(fastest, absl::Nanoseconds(reported_at - killed_at));
    RecordProperty(absl::StrCat("report_us_", attempt), static_cast<int>((reported_at - killed_at) / 1000));
  }
  EXPECT_LT(fastest, kReportMax);
}

TEST_P(ProcessTest, AnIdlePeersDeathIsReportedToAWaiter) {
  Job job(GetParam(), 2, [](Player& player) {
    std::byte byte;
    auto receiving = player.transport.start_receive(Rank(1 - player.transport.rank().value), Tag{View(1)}, {&byte, 1});
    player.reach(1);
    const absl::Status status = player.transport.wait(std::move(receiving), kPatience);
    player.report_failure(status);
    return accuses(status, 1);
  });
  ASSERT_TRUE(job.reaches(0, 1) && job.reaches(1, 1));
  job.send_signal(1, SIGKILL);
  EXPECT_TRUE(job.succeeds(0)) << job[0].message;
}

TEST_P(ProcessTest, AnExitWithoutGoodbyeIsADeathAndWhatWasSentStillArrives) {
  Job job(GetParam(), 2, [](Player& player) {
    Transport& transport = player.transport;
    std::byte byte{5};
    if (transport.rank() == Rank(1)) {
      const bool sent = transport.wait(transport.start_send(Rank(0), Tag{View(1)}, {&byte, 1}), kPatience).ok();
      player.reach(1);
      // Until the message has been read: UCX loses what a dying process has sent last.
      if (!player.wait_until_told()) return false;
      ::_exit(sent ? 0 : 1);
    }
    if (!transport.wait(transport.start_receive(Rank(1), Tag{View(1)}, {&byte, 1}), kPatience).ok()) return false;
    player.reach(1);
    const absl::Status status = transport.wait(transport.start_receive(Rank(1), Tag{View(1)}, {&byte, 1}), kPatience);
    player.report_failure(status);
    return accuses(status, 1) && byte == std::byte(5);
  });
  ASSERT_TRUE(job.reaches(0, 1));
  job.tell(1);
  EXPECT_TRUE(job.succeeds(1));
  EXPECT_TRUE(job.succeeds(0)) << job[0].message;
}

TEST_P(ProcessTest, AStoppedPeerIsATimeoutThatNamesIt) {
  Job job(GetParam(), 3, [](Player& player) {
    Transport& transport = player.transport;
    player.reach(1);
    if (transport.rank() == Rank(1)) return player.wait_until_told();
    if (!player.wait_until_told()) return false;
    // In the middle of a large message, and again for one that never begins.
    std::vector<std::byte> large(16 << 20);
    auto sending = transport.start_send(Rank(1), Tag{View(1)}, large);
    const absl::Status status = transport.wait(std::move(sending), absl::Milliseconds(50));
    std::byte byte;
    const absl::Status silent =
        transport.wait(transport.start_receive(Rank(1), Tag{View(1)}, {&byte, 1}), absl::Milliseconds(50));
    player.report_failure(status);
    Communicator others(transport, {Rank(0), Rank(2)}, {View(2), 0, kPatience});
    if (!others.barrier().ok()) return false;
    return absl::IsDeadlineExceeded(status) && accused_rank(status) == Rank(1) &&
           absl::IsDeadlineExceeded(silent) && accused_rank(silent) == Rank(1);
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(job.reaches(rank, 1));
  job.send_signal(1, SIGSTOP);
  job.tell(0);
  job.tell(2);
  EXPECT_TRUE(job.succeeds(0)) << job[0].message;
  EXPECT_TRUE(job.succeeds(2)) << job[2].message;
}

TEST_P(ProcessTest, ACleanCloseAccusesNobody) {
  Job job(GetParam(), 3, [](Player& player) {
    Transport& transport = player.transport;
    if (transport.rank() == Rank(1)) {
      transport.close();
      return true;
    }
    std::byte byte;
    const absl::Status status = transport.wait(transport.start_receive(Rank(1), Tag{View(1)}, {&byte, 1}), kPatience);
    player.report_failure(status);
    Communicator others(transport, {Rank(0), Rank(2)}, {View(1), 0, kPatience});
    const bool goes_on = others.barrier().ok();
    transport.close();
    return goes_on && absl::IsCancelled(status);
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(job.succeeds(rank)) << job[rank].message;
}

TEST_P(ProcessTest, ADeathDuringACollectiveEndsItForEverybody) {
  Job job(GetParam(), 4, [](Player& player) {
    Communicator world(player.transport, {Rank(0), Rank(1), Rank(2), Rank(3)}, {View(1), 0, kPatience});
    std::vector<float> values(1'000'000, 1.0f);
    for (int round = 1;; ++round) {
      player.reach(round);
      const absl::Status status = world.all_reduce<float>(values, ReduceOp::kMax);
      if (status.ok()) continue;
      player.report_failure(status);
      // Rank 3 itself, or a survivor that had given up and left before.
      if (accuses(status, 3)) return player.transport.revoke(View(1), status), true;
      return absl::IsUnavailable(status);
    }
  });
  ASSERT_TRUE(job.reaches(3, 3));
  job.send_signal(3, SIGKILL);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(job.succeeds(rank)) << job[rank].message;
}

INSTANTIATE_TEST_SUITE_P(All, ProcessTest, testing::Values(TransportKind::kUnix, TransportKind::kUcx),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace evermoe
