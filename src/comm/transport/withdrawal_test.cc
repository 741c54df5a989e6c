// A caller's memory is its own again as soon as wait() has returned, whatever has become of the
// message: also in the middle of a large one, and promptly, for recovery waits for it.
#include <gtest/gtest.h>

#include <thread>

#include "comm/communicator.h"
#include "comm/transport/process_testing.h"

namespace evermoe {
namespace {

constexpr size_t kMessageBytes = 32 << 20;
// What a withdrawal may take on a busy machine, the best of several: it does not wait for the peer.
constexpr absl::Duration kWithdrawalMax = absl::Seconds(1);

// Memory that a caller gives up.
class Pages {
 public:
  explicit Pages(size_t size, std::byte fill = {}) : size_(size) {
    memory_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory_ != MAP_FAILED);
    std::memset(memory_, static_cast<int>(fill), size);
  }
  ~Pages() { ::munmap(memory_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::span<std::byte> span() { return {static_cast<std::byte*>(memory_), size_}; }
  bool is_filled_with(std::byte fill) {
    return span()[0] == fill && std::memcmp(&span()[0], &span()[1], size_ - 1) == 0;
  }

  // Whoever reads or writes there from now on is ended by the kernel.
  void seal() {
    CHECK(::mprotect(memory_, size_, PROT_NONE) == 0);
    CHECK(::madvise(memory_, size_, MADV_DONTNEED) == 0);
  }

 private:
  const size_t size_;
  void* memory_ = nullptr;
};

absl::Duration since(int64_t begin_ns) { return absl::Nanoseconds(now_ns() - begin_ns); }

class WithdrawalTest : public testing::TestWithParam<TransportKind> {
 protected:
  // How long the rank says its withdrawal took.
  static absl::Duration reported(Job& job, int rank) {
    return absl::Nanoseconds(job[rank].took_ns.load());
  }
};

// Ranks 0 and 1 exchange another message.
bool is_still_connected(Transport& transport) {
  const int own = transport.rank().value;
  const auto message = bytes_of(1 << 20, own);
  auto sending = transport.start_send(Rank(1 - own), tag(2), message);
  return gets(transport, 1 - own, tag(2), message.size(), 1 - own) &&
         transport.wait(std::move(sending), kPatience).ok();
}

constexpr absl::Duration kGivenUpAfter = absl::Milliseconds(50);
constexpr int kWithdrawn = 1'000'000;  // progress

// Waits for the operation until the process is told that the other one is stopped; then gives it up
// soon and reports how long that took.
absl::Status wait_until_told(Participant& participant,
                             std::unique_ptr<TransportOperation> operation) {
  Transport& transport = participant.transport;
  while (!transport.done(*operation) && !participant.is_told()) std::this_thread::yield();
  if (transport.done(*operation)) return transport.wait(std::move(operation), kPatience);
  const int64_t begin = now_ns();
  const absl::Status status = transport.wait(std::move(operation), kGivenUpAfter);
  participant.report_duration(since(begin) - kGivenUpAfter);
  return status;
}

// Rank 0 sends large messages until rank 1 is stopped in the middle of one.
bool send_until_receiver_stops(Participant& participant) {
  Transport& transport = participant.transport;
  const bool is_sender = transport.rank() == Rank(0);
  Pages pages(kMessageBytes, std::byte{7});
  absl::Status status;
  for (int round = 1; status.ok(); ++round) {
    auto operation = is_sender ? transport.start_send(Rank(1), tag(1), pages.span())
                               : transport.start_receive(Rank(0), tag(1), pages.span());
    participant.reach(round);
    status = wait_until_told(participant, std::move(operation));
    if (!is_sender && status.ok() && !pages.is_filled_with(std::byte{7})) return false;
  }
  participant.report_failure(status);
  pages.seal();
  participant.reach(kWithdrawn);
  return absl::IsDeadlineExceeded(status) && is_still_connected(transport);
}

TEST_P(WithdrawalTest, TheMemoryOfASendIsFreeThoughItsReceiverIsStopped) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int attempt = 0; attempt < 3; ++attempt) {
    Job job(GetParam(), 2, send_until_receiver_stops);
    ASSERT_TRUE(job.reaches(1, 3 + attempt));
    job.send_signal(1, SIGSTOP);
    job.tell(0);
    ASSERT_TRUE(job.reaches(0, kWithdrawn)) << job[0].message;
    fastest = std::min(fastest, reported(job, 0));
    RecordProperty(absl::StrCat("withdrawal_us_", attempt),
                   static_cast<int>(absl::ToInt64Microseconds(reported(job, 0))));
    job.tell(1);
    job.send_signal(1, SIGCONT);
    EXPECT_TRUE(job.succeeds(1)) << job[1].message;
    EXPECT_TRUE(job.succeeds(0)) << job[0].message;
  }
  EXPECT_LT(fastest, kWithdrawalMax);
}

// Rank 1 receives large messages until rank 0 is stopped in the middle of one. What rank 0 begins
// to send afterwards nobody receives.
bool receive_until_sender_stops(Participant& participant) {
  Transport& transport = participant.transport;
  const bool is_sender = transport.rank() == Rank(0);
  Pages pages(kMessageBytes, std::byte{7});
  absl::Status status;
  for (int round = 1; status.ok() && !(is_sender && participant.is_told()); ++round) {
    auto operation = is_sender ? transport.start_send(Rank(1), tag(1), pages.span())
                               : transport.start_receive(Rank(0), tag(1), pages.span());
    participant.reach(round);
    status = wait_until_told(participant, std::move(operation));
  }
  participant.report_failure(status);
  pages.seal();
  participant.reach(kWithdrawn);
  return (is_sender || absl::IsDeadlineExceeded(status)) && is_still_connected(transport);
}

TEST_P(WithdrawalTest, TheMemoryOfAReceiveIsFreeThoughItsSenderIsStopped) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int attempt = 0; attempt < 3; ++attempt) {
    Job job(GetParam(), 2, receive_until_sender_stops);
    ASSERT_TRUE(job.reaches(1, 3 + attempt));
    job.send_signal(0, SIGSTOP);
    job.tell(1);
    ASSERT_TRUE(job.reaches(1, kWithdrawn)) << job[1].message;
    fastest = std::min(fastest, reported(job, 1));
    RecordProperty(absl::StrCat("withdrawal_us_", attempt),
                   static_cast<int>(absl::ToInt64Microseconds(reported(job, 1))));
    job.tell(0);
    job.send_signal(0, SIGCONT);
    EXPECT_TRUE(job.succeeds(0)) << job[0].message;
    EXPECT_TRUE(job.succeeds(1)) << job[1].message;
  }
  EXPECT_LT(fastest, kWithdrawalMax);
}

// Ranks 0 and 1 exchange large messages until rank 1 is killed; then rank 0 goes on with rank 2.
bool exchange_until_killed(Participant& participant) {
  Transport& transport = participant.transport;
  const auto meet_survivor = [&] {
    Communicator survivors(transport, {Rank(0), Rank(2)}, {View(2), 1, kPatience});
    return survivors.barrier().ok();
  };
  if (transport.rank() == Rank(2)) return meet_survivor();
  const Rank other(1 - transport.rank().value);
  Pages out(kMessageBytes, std::byte{7}), into(kMessageBytes);
  absl::Status sent, received;
  int64_t lost_at = 0;
  for (int round = 1; sent.ok() && received.ok(); ++round) {
    participant.reach(round);
    auto receiving = transport.start_receive(other, tag(1), into.span());
    auto sending = transport.start_send(other, tag(1), out.span());
    received = transport.wait(std::move(receiving), kPatience);
    lost_at = now_ns();
    sent = transport.wait(std::move(sending), kPatience);
  }
  out.seal();
  into.seal();
  participant.report_duration(since(lost_at));
  participant.report_failure(sent.ok() ? received : sent);
  return (accuses(received, 1) || accuses(sent, 1)) && meet_survivor();
}

TEST_P(WithdrawalTest, TheMemoryOfAnExchangeWithAKilledPeerIsFree) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int attempt = 0; attempt < 5; ++attempt) {
    Job job(GetParam(), 3, exchange_until_killed);
    ASSERT_TRUE(job.reaches(1, 3 + attempt));
    job.send_signal(1, SIGKILL);
    EXPECT_TRUE(job.succeeds(0)) << job[0].message;
    EXPECT_TRUE(job.succeeds(2)) << job[2].message;
    fastest = std::min(fastest, reported(job, 0));
  }
  EXPECT_LT(fastest, kWithdrawalMax);
}

// Both ends revoke view after view while large messages of it are on their way, not quite at the
// same moment.
TEST_P(WithdrawalTest, TheMemoryOfRevokedMessagesIsFreeAndTheConnectionStands) {
  constexpr uint32_t kViews = 8;
  absl::Duration fastest = absl::InfiniteDuration();
  run_ranks(GetParam(), 2, [&](Transport& transport) {
    const int own = transport.rank().value;
    const Rank other(1 - own);
    for (uint32_t view = 1; view <= kViews; ++view) {
      Pages out(kMessageBytes, std::byte{7}), into(kMessageBytes);
      auto receiving = transport.start_receive(other, tag(1, view), into.span());
      auto sending = transport.start_send(other, tag(1, view), out.span());
      const Deadline deadline(absl::Milliseconds((own == 0 ? view : kViews - view) % 5));
      while (!deadline.passed()) transport.done(*receiving);
      const int64_t begin = now_ns();
      transport.revoke(View(view), Cancelled("the view is over"));
      const absl::Status received = transport.wait(std::move(receiving), kPatience);
      const absl::Status sent = transport.wait(std::move(sending), kPatience);
      const absl::Duration took = since(begin);
      EXPECT_TRUE(received.ok() || received.message() == "the view is over") << received;
      EXPECT_TRUE(sent.ok() || sent.message() == "the view is over") << sent;
      EXPECT_TRUE(!received.ok() || into.is_filled_with(std::byte{7}));
      out.seal();
      into.seal();
      if (own == 0) fastest = std::min(fastest, took);
      if (own == 0)
        RecordProperty(absl::StrCat("withdrawal_us_", view),
                       static_cast<int>(absl::ToInt64Microseconds(took)));
      const Tag after = tag(2, kViews + 1);
      auto answering = transport.start_send(other, after, bytes_of(0, 0));
      EXPECT_TRUE(gets(transport, other.value, after, 0, 0));
      EXPECT_TRUE(transport.wait(std::move(answering), kPatience).ok());
    }
    const auto message = bytes_of(kMessageBytes, own);
    auto sending = transport.start_send(other, tag(1, kViews + 1), message);
    EXPECT_TRUE(gets(transport, other.value, tag(1, kViews + 1), kMessageBytes, other.value));
    EXPECT_TRUE(transport.wait(std::move(sending), kPatience).ok());
  });
  EXPECT_LT(fastest, kWithdrawalMax);
}

INSTANTIATE_TEST_SUITE_P(All, WithdrawalTest, testing::ValuesIn(kRealTransports),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace evermoe
