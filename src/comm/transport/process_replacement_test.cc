// Real processes that are killed and replaced while the others go on.
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "comm/communicator.h"
#include "comm/transport/process_testing.h"

namespace evermoe {
namespace {

constexpr int kRanks = 4;
// Groups of communicators: everybody's, and one of the ranks that are never killed.
constexpr uint16_t kWorld = 0;
constexpr uint16_t kStable = 50;
constexpr std::array kStableRanks = {Rank(0), Rank(3)};

int open_files() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                        std::filesystem::directory_iterator()));
}

// Answers the service messages of the others, and ends the views that the test says are over.
class Service {
 public:
  explicit Service(Participant& participant)
      : participant_(participant), thread_([this] { serve(); }) {}
  ~Service() {
    stop_ = true;
    (void)send(participant_.transport, participant_.transport.rank().value, service_tag(0), {});
    thread_.join();
  }

  // Blocks until that many service messages have come back in all, or the view is over. False after
  // kPatience.
  bool await_answers(uint32_t count, View view) {
    std::unique_lock lock(mutex_);
    return news_.wait_for(lock, absl::ToChronoSeconds(kPatience),
                          [&] { return answers_ >= count || ended_ >= view; });
  }
  uint32_t answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

  std::atomic<uint32_t> wrong{0};  // service messages of a view that was over long before

 private:
  void note(View ended, uint32_t answers) {
    const std::lock_guard lock(mutex_);
    ended_ = std::max(ended_, ended);
    answers_ += answers;
    news_.notify_all();
  }

  void serve() {
    while (!stop_) {
      const View ended = participant_.last_ended();
      if (ended > View(0)) participant_.transport.revoke(GroupRange{kWorld, kWorld}, ended, over_);
      note(ended, 0);
      auto service_message = participant_.transport.receive_service_message(absl::Milliseconds(2));
      if (!service_message.ok()) continue;
      if (View(service_message->tag.view.value + 1) < ended) ++wrong;
      if (service_message->tag.purpose == 2) note(ended, 1);
      if (service_message->tag.purpose != 1) continue;
      Tag answer = service_message->tag;
      answer.purpose = 2;
      // The asker may be dead by now.
      (void)send(participant_.transport, service_message->from.value, answer,
                 service_message->span());
    }
  }

  Participant& participant_;
  // One for all: the thread sanitizer does not see how the library counts who shares a status.
  const absl::Status over_ = Cancelled("the view is over");
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;  // guards the next two
  View ended_;
  uint32_t answers_ = 0;
  std::condition_variable news_;
  std::thread thread_;
};

// Everybody reduces and asks everybody for a copy, round after round, until the view ends.
// Then everybody is connected with everybody: `files` is how many files that takes.
absl::Status train(Participant& participant, Service& service, View view, int& rounds,
                   std::vector<int>& files) {
  Transport& transport = participant.transport;
  std::vector<Rank> all;
  for (int i = 0; i < kRanks; ++i) all.push_back(Rank(i));
  Communicator world(transport, all, {view, kWorld, kPatience});
  for (bool is_first = true; true; is_first = false) {
    std::vector<int64_t> values(20'000, 1);
    values[1] = participant.is_told();
    RETURN_IF_ERROR(world.all_reduce<int64_t>(values, ReduceOp::kSum));
    CHECK(values[0] == kRanks);
    if (values[1] == kRanks) return absl::OkStatus();
    participant.reach(++rounds);
    uint32_t expected = service.answers();
    for (const Rank other : all) {
      if (other == transport.rank()) continue;
      RETURN_IF_ERROR(send(transport, other.value, service_tag(1, view.value),
                           bytes_of(rounds % 2 ? 64 : 200'000, rounds)));
      ++expected;
    }
    if (!service.await_answers(expected, view)) return Timeout("no answers");
    if (is_first) files.push_back(open_files());
  }
}

// Between the ranks that stay nothing is ever interrupted.
bool train_in_stable_group(Transport& transport, std::atomic<bool>& stop) {
  Communicator stable(transport, {kStableRanks.begin(), kStableRanks.end()},
                      {View(1), kStable, kPatience});
  while (true) {
    std::vector<int64_t> values(5'000, stop);
    if (!stable.all_reduce<int64_t>(values, ReduceOp::kSum).ok()) return false;
    if (values[0] == 2) return true;
  }
}

bool play_all_views(Participant& participant) {
  Transport& transport = participant.transport;
  const bool is_stable = transport.rank() == kStableRanks[0] || transport.rank() == kStableRanks[1];
  Service service(participant);
  std::atomic<bool> stop = false;
  std::atomic<bool> stable_ok = true;
  std::thread stable;
  int rounds = 0;
  absl::Status status;
  std::vector<int> files;
  for (View view = std::max(participant.since(), View(1));; ++view.value) {
    if (!participant.wait_for_view(view)) return false;
    if (participant.last_ended() >= view) continue;  // it failed before it began
    CHECK_OK(transport.set_peers(participant.table()));
    if (is_stable && !stable.joinable())
      stable = std::thread([&] { stable_ok = train_in_stable_group(transport, stop); });
    status = train(participant, service, view, rounds, files);
    if (status.ok()) break;
    participant.report_failure(status);
    if (!eventually([&] { return participant.last_ended() >= view; })) return false;
  }
  stop = true;
  if (stable.joinable()) stable.join();
  // Where both call at a time, a connection of UCX has two sockets.
  constexpr int kConnections = 2 * (kRanks - 1);
  const bool leaks = files.size() > 3 && files.back() > files[2] + kConnections;
  if (leaks)
    participant.report_failure(Internal(absl::StrCat(files[2], " files became ", files.back())));
  if (service.wrong > 0)
    participant.report_failure(Internal("service messages of views long over"));
  return stable_ok && !leaks && service.wrong == 0;
}

class ReplacementTest : public testing::TestWithParam<TransportKind> {
 protected:
  // Whether everybody makes a few rounds of progress.
  static bool advances(Job& job) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (!job.reaches(rank, job[rank].progress + 3)) return false;
    }
    return true;
  }
};

TEST_P(ReplacementTest, KilledProcessesAreReplacedAgainAndAgain) {
  Job job(GetParam(), kRanks, play_all_views, Job::Begin::kAlone);
  ASSERT_TRUE(job.announce(1));
  uint32_t view = 1;
  for (const std::vector<int>& victims :
       std::vector<std::vector<int>>{{1}, {2}, {1, 2}, {1}, {2, 1}, {1}, {2}, {1}}) {
    ASSERT_TRUE(advances(job)) << "view " << view;
    for (const int victim : victims) job.kill(victim);
    job.end_views(view++);
    for (const int victim : victims) job.start(victim, view);
    ASSERT_TRUE(job.announce(view));
  }
  ASSERT_TRUE(advances(job));
  for (int rank = 0; rank < kRanks; ++rank) job.tell(rank);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(job.succeeds(rank)) << rank << ": " << job[rank].message;
}

TEST_P(ReplacementTest, ANewcomerKilledBeforeItIsReachedIsReplacedByTheNext) {
  Job job(GetParam(), kRanks, play_all_views, Job::Begin::kAlone);
  ASSERT_TRUE(job.announce(1));
  ASSERT_TRUE(advances(job));
  uint32_t view = 1;
  for (int round = 0; round < 6; ++round) {
    job.kill(1);
    job.end_views(view++);
    job.start(1, view);
    ASSERT_TRUE(eventually([&] { return job[1].has_address.load(); }));
    // Some are stopped before it knows them, some are killed before anybody knows of them.
    if (round % 3 == 0) job.send_signal(1, SIGSTOP);
    if (round % 3 == 1) job.kill(1);
    const int64_t announced_at = now_ns();  // who fails at once has done so when that returns
    ASSERT_TRUE(job.announce(view));
    EXPECT_TRUE(eventually([&] { return round % 3 != 0 || now_ns() - announced_at > 50'000'000; }));
    if (round % 3 != 1) job.kill(1);
    ASSERT_TRUE(eventually(
        [&] { return job[0].failed_at_ns > announced_at && job[2].failed_at_ns > announced_at; }));
    EXPECT_LT(job[0].failed_at_ns - announced_at, 10'000'000'000);
    job.end_views(view++);
    job.start(1, view);
    ASSERT_TRUE(job.announce(view));
    ASSERT_TRUE(advances(job)) << "view " << view;
  }
  for (int rank = 0; rank < kRanks; ++rank) job.tell(rank);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(job.succeeds(rank)) << rank << ": " << job[rank].message;
}

INSTANTIATE_TEST_SUITE_P(All, ReplacementTest, testing::ValuesIn(kRealTransports),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace evermoe
