// A role that passes from one process to another one which was connected before.
#include "comm/transport/seated_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/cast_testing.h"

namespace evermoe {
namespace {

using testing::HasSubstr;

constexpr int kRoles = 2;

struct SeatedProcess {
  PeerAddress address;
  std::unique_ptr<Transport> transport;
  Transport* operator->() const { return transport.get(); }
  Transport& operator*() const { return *transport; }
};

// Role 0 is played by the leaver, and in view 2 by the joiner; role 1 by the one who stays.
class SeatedTransportTest : public testing::TestWithParam<TransportKind> {
 protected:
  static SeatedProcess start(int role, int seat, uint32_t since) {
    const auto listener = listen_in_seat(listen(GetParam()), seat);
    auto transport = listener->open(Rank(role), seats_of_job(kRoles), View(since));
    CHECK_OK(transport.status());
    return {{listener->address(), View(since)}, *std::move(transport)};
  }
  static void tell(const SeatedProcess& process, const SeatedProcess& plays_0,
                   const SeatedProcess& plays_1, const std::map<Rank, PeerAddress>& others = {}) {
    CHECK_OK(process->set_peers(
        with_others({plays_0.address, plays_1.address}, seats_of_job(kRoles), others)));
  }
  void begin() {
    tell(leaver_, leaver_, stays_);
    tell(stays_, leaver_, stays_);
    exchange(leaver_, 1);
  }
  // As what happens in a job: the joiner asks, who stays is told of it.
  void prepare() {
    tell(joiner_, joiner_, stays_, {{Rank(0), leaver_.address}});
    joiner_->connect(Rank(1), Traffic::kMessages);
    tell(stays_, leaver_, stays_, {{Rank(0), joiner_.address}});
    ASSERT_TRUE(eventually([&] {
      return joiner_->is_connected(Rank(1), Traffic::kMessages) &&
             stays_->is_connected(other_process(Rank(0), kRoles), Traffic::kMessages);
    }));
  }
  void switch_over() {
    stays_->revoke(View(1), Cancelled("a view begins"));
    tell(stays_, joiner_, stays_);
    tell(joiner_, joiner_, stays_);
  }
  // Of role 0, whoever plays it, with role 1.
  void exchange(const SeatedProcess& player, uint32_t view) {
    ASSERT_TRUE(send(*player, 1, tag(3, view), bytes_of(100, 1)).ok());
    EXPECT_TRUE(gets(*stays_, 0, tag(3, view), 100, 1));
    ASSERT_TRUE(send(*stays_, 0, tag(4, view), bytes_of(50, 2)).ok());
    EXPECT_TRUE(gets(*player, 1, tag(4, view), 50, 2));
  }
  Rank heard_from(const SeatedProcess& process) {
    const auto message = process->receive_service_message(kPatience);
    return message.ok() ? message->from : Rank(-1);
  }

  SeatedProcess leaver_ = start(0, 0, 1), stays_ = start(1, 0, 1), joiner_ = start(0, 1, 2);
};

TEST_P(SeatedTransportTest, ARolePassesOnWithoutAConnectionMadeForThat) {
  begin();
  prepare();
  exchange(leaver_, 1);
  const int64_t made = joiner_->connections_opened();
  EXPECT_EQ(made, 1);
  switch_over();
  exchange(joiner_, 2);
  EXPECT_EQ(joiner_->connections_opened(), made);
  EXPECT_EQ(joiner_->rank(), Rank(0));
  // And back, to the seat in which the first one was.
  leaver_.transport.reset();
  SeatedProcess next = start(0, 0, 3);
  std::swap(next, joiner_);
  const SeatedProcess& before = next;
  tell(joiner_, joiner_, stays_, {{Rank(0), before.address}});
  tell(stays_, before, stays_, {{Rank(0), joiner_.address}});
  joiner_->connect(Rank(1), Traffic::kMessages);
  exchange(before, 2);
  stays_->revoke(View(2), Cancelled("a view begins"));
  tell(stays_, joiner_, stays_);
  tell(joiner_, joiner_, stays_);
  exchange(joiner_, 3);
}

TEST_P(SeatedTransportTest, ARolePassesOnUnpreparedToo) {
  begin();
  leaver_.transport.reset();
  switch_over();
  exchange(joiner_, 2);
}

TEST_P(SeatedTransportTest, LeaverAndJoinerTalkMeanwhile) {
  begin();
  tell(joiner_, joiner_, stays_, {{Rank(0), leaver_.address}});
  tell(leaver_, leaver_, stays_, {{Rank(0), joiner_.address}});
  const Rank other = other_process(Rank(0), kRoles);
  ASSERT_TRUE(send(*leaver_, other.value, service_tag(7), bytes_of(10, 1)).ok());
  EXPECT_EQ(heard_from(joiner_), other);
  ASSERT_TRUE(send(*joiner_, other.value, service_tag(7), bytes_of(10, 1)).ok());
  EXPECT_EQ(heard_from(leaver_), other);
  ASSERT_TRUE(send(*joiner_, 0, service_tag(7), {}).ok());
  EXPECT_EQ(heard_from(joiner_), Rank(0)) << "to oneself";
}

TEST_P(SeatedTransportTest, WhoPlaysARoleSpeaksAsThatBeforeOthersKnow) {
  begin();
  prepare();
  ASSERT_TRUE(send(*joiner_, 1, service_tag(7, /*view=*/1), {}).ok());
  EXPECT_EQ(heard_from(stays_), other_process(Rank(0), kRoles));
  ASSERT_TRUE(send(*joiner_, 1, service_tag(7, /*view=*/2), {}).ok());
  EXPECT_EQ(heard_from(stays_), Rank(0));
  ASSERT_TRUE(send(*leaver_, 1, service_tag(7, /*view=*/1), {}).ok());
  EXPECT_EQ(heard_from(stays_), Rank(0));
}

TEST_P(SeatedTransportTest, ErrorsAccuseTheRole) {
  begin();
  prepare();
  switch_over();
  std::byte byte;
  auto waiting = stays_->start_receive(Rank(0), tag(8, 2), {&byte, 1});
  joiner_.transport.reset();
  const absl::Status lost = stays_->wait(std::move(waiting), kPatience);
  EXPECT_TRUE(accuses(lost, 0)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("(in that seat: rank 0)"));
}

TEST_P(SeatedTransportTest, TablesThatCannotBeAreRefused) {
  const auto tell_it = [&](const std::vector<PeerAddress>& table) {
    return std::string(stays_->set_peers(table).message());
  };
  const std::string bare = leaver_.address.address.substr(leaver_.address.address.find('@') + 1);
  EXPECT_THAT(tell_it({{bare, View(1)}, stays_.address, {}, {}}), HasSubstr("no address of a"));
  EXPECT_THAT(tell_it({leaver_.address, stays_.address, leaver_.address, {}}),
              HasSubstr("two processes of role 0 in one seat"));
  const SeatedProcess wrong = start(1, 1, 2);
  EXPECT_THAT(tell_it({leaver_.address, wrong.address, {}, {}}), HasSubstr("the other seat"));
}

INSTANTIATE_TEST_SUITE_P(All, SeatedTransportTest, testing::ValuesIn(kRealTransports),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace evermoe
