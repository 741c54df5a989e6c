// Streams between two ends in this process: order, size, and every way to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/keys/job_keys_testing.h"
#include "control/wire/control_call.h"
#include "control/wire/control_listener.h"
#include "control/wire/private_folder.h"
#include "control/wire/stream_events_testing.h"

namespace evermoe {
namespace {

class ControlStreams : public testing::TestWithParam<const char*> {
 protected:
  std::string where() const {
    return GetParam() == std::string("tcp") ? "127.0.0.1:0" : folder_->address("controller");
  }
  // Not needed inside a machine.
  std::shared_ptr<const JobKeys> keys() const {
    return GetParam() == std::string("tcp") ? test_keys() : nullptr;
  }
  std::unique_ptr<ControlListener> listen() {
    auto listener = ControlListener::start(where(), server_, keys());
    EXPECT_TRUE(listener.ok()) << listener.status();
    return *std::move(listener);
  }
  std::unique_ptr<PrivateFolder> folder_ = PrivateFolder::make().value();
  RecordedEvents server_;
  RecordedEvents client_;
};

TEST_P(ControlStreams, CarryEnvelopesBothWaysInOrder) {
  const auto listener = listen();
  ControlCall call(listener->address(), StreamNumber(7), client_, keys());
  for (int i = 0; i < 1000; ++i) call.send({0, JobEvent{absl::StrCat("up ", i)}});
  StreamNumber number;
  for (int i = 0; i < 1000; ++i) {
    const StreamEvent one = server_.next();
    ASSERT_TRUE(one.envelope) << one.why;
    ASSERT_EQ(std::get<JobEvent>(one.envelope->message).text, absl::StrCat("up ", i));
    number = one.stream;
  }
  for (int i = 0; i < 1000; ++i) listener->send(number, {0, JobEvent{absl::StrCat("down ", i)}});
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client_.next_text(), absl::StrCat("down ", i));
}

TEST_P(ControlStreams, ALargePlanFits) {
  const auto listener = listen();
  ControlCall call(listener->address(), StreamNumber(1), client_, keys());
  call.send({0, Beat{}});
  ASSERT_TRUE(server_.next().envelope);
  Plan plan;
  for (int i = 0; i < 4096; ++i) plan.table.push_back({std::string(1000, 'x'), View(1)});
  call.send({1, SendOrder{Rank(0), View(1), plan}});
  const StreamEvent one = server_.next();
  ASSERT_TRUE(one.envelope) << one.why;
  EXPECT_EQ(std::get<Plan>(std::get<SendOrder>(one.envelope->message).message).table.size(), 4096u);
}

TEST_P(ControlStreams, TheEndOfACallIsNoticed) {
  const auto listener = listen();
  {
    ControlCall call(listener->address(), StreamNumber(1), client_, keys());
    call.send({0, JobEvent{"hello"}});
    EXPECT_EQ(server_.next_text(), "hello");
  }
  EXPECT_FALSE(server_.next().envelope);
}

// The last words of a process that ends at once.
TEST_P(ControlStreams, AFinishedCallHasBeenRead) {
  const auto listener = listen();
  for (int round = 0; round < 20; ++round) {
    ControlCall call(listener->address(), StreamNumber(1), client_, keys());
    for (int i = 0; i < 100; ++i) call.send({0, JobEvent{absl::StrCat(i)}});
    EXPECT_TRUE(call.finish(absl::Seconds(20)));
    for (int i = 0; i < 100; ++i) ASSERT_EQ(server_.next_text(), absl::StrCat(i));
    EXPECT_FALSE(server_.next().envelope);
  }
  ControlCall nobody("127.0.0.1:1", StreamNumber(2), client_, test_keys());
  nobody.send({0, JobEvent{"hello"}});
  EXPECT_FALSE(nobody.finish(absl::Seconds(20)));
}

TEST_P(ControlStreams, TheEndOfAListenerIsNoticedAfterItsLastWords) {
  auto listener = listen();
  ControlCall call(listener->address(), StreamNumber(3), client_, keys());
  call.send({0, JobEvent{"hello"}});
  listener->send(server_.next().stream, {0, JobEvent{"farewell"}});
  listener.reset();
  EXPECT_EQ(client_.next_text(), "farewell");
  const StreamEvent end = client_.next();
  EXPECT_FALSE(end.envelope);
  EXPECT_EQ(end.stream, StreamNumber(3));
}

TEST_P(ControlStreams, AStreamThatIsClosedBreaksAtTheOtherEndOnly) {
  const auto listener = listen();
  ControlCall first(listener->address(), StreamNumber(1), client_, keys());
  first.send({0, JobEvent{"first"}});
  const StreamNumber number = server_.next().stream;
  listener->close(number);
  EXPECT_FALSE(client_.next().envelope);
  listener->send(number, {0, JobEvent{"nobody hears it"}});
  ControlCall second(listener->address(), StreamNumber(2), client_, keys());
  second.send({0, JobEvent{"second"}});
  EXPECT_EQ(server_.next_text(), "second") << "and not the end of the first";
}

TEST_P(ControlStreams, WhereNobodyListensACallBreaks) {
  const std::string address = listen()->address();
  ControlCall call(address, StreamNumber(5), client_, keys());
  call.send({0, JobEvent{"hello"}});
  const StreamEvent end = client_.next();
  EXPECT_FALSE(end.envelope);
  EXPECT_FALSE(end.why.empty());
}

TEST_P(ControlStreams, AnAddressCanBeTakenAgain) {
  auto listener = listen();
  const std::string address = listener->address();
  EXPECT_FALSE(ControlListener::start(address, server_, keys()).ok()) << "one at a time";
  listener.reset();
  const auto again = ControlListener::start(address, server_, keys());
  ASSERT_TRUE(again.ok()) << again.status();
  ControlCall call(address, StreamNumber(1), client_, keys());
  call.send({0, JobEvent{"again"}});
  EXPECT_EQ(server_.next_text(), "again");
}

INSTANTIATE_TEST_SUITE_P(Over, ControlStreams, testing::Values("tcp", "unix"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace evermoe
