// Strangers at the control plane, with real sockets: they get an error and nobody else notices.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/transport/another_user_testing.h"
#include "comm/transport/socket.h"
#include "control/keys/job_keys_testing.h"
#include "control/wire/control_call.h"
#include "control/wire/control_listener.h"
#include "control/wire/private_folder.h"
#include "control/wire/stream_events_testing.h"
#include "control/wire/unproven_connections.h"
#include "env/clock.h"

namespace evermoe {
namespace {

using testing::HasSubstr;

FileDescriptor connect_to(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return socket;
}

// The other end has ended the connection within the time; what it says before does not count.
bool is_cut(const FileDescriptor& socket, absl::Duration within) {
  const absl::Duration deadline = real_clock().now() + within;
  while (real_clock().now() < deadline) {
    pollfd waiting{socket.get(), POLLIN, 0};
    ::poll(&waiting, 1, 100);
    char bytes[4096];
    const ssize_t got = ::recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

class ControlLocks : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = ControlListener::start("127.0.0.1:0", server_, test_keys());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  // Somebody of the job is heard at once.
  void expect_that_agents_are_heard() {
    const absl::Duration began = real_clock().now();
    RecordedEvents agent;
    ControlCall call(listener_->address(), StreamNumber(1), agent, test_keys());
    call.send({0, JobEvent{"hello"}});
    StreamEvent heard = server_.next();
    while (!heard.envelope && heard.stream < StreamNumber(100))
      heard = server_.next();  // earlier ones go
    ASSERT_TRUE(heard.envelope);
    EXPECT_EQ(std::get<JobEvent>(heard.envelope->message).text, "hello");
    EXPECT_LT(real_clock().now() - began, absl::Seconds(10));
  }
  void expect_refused(const JobKeys& keys) {
    RecordedEvents stranger;
    ControlCall call(listener_->address(), StreamNumber(1), stranger,
                     std::make_shared<const JobKeys>(keys));
    call.send({0, Drain{}});
    const StreamEvent end = stranger.next();
    EXPECT_FALSE(end.envelope);
    EXPECT_FALSE(end.why.empty());
    EXPECT_FALSE(server_.is_any_within(50)) << "the job hears nothing of it";
  }

  RecordedEvents server_;
  std::unique_ptr<ControlListener> listener_;
};

TEST(ControlLocksDeathTest, NobodyListensAtANetworkWithoutKeys) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  RecordedEvents events;
  const auto listener = ControlListener::start("127.0.0.1:0", events);
  EXPECT_TRUE(absl::IsInvalidArgument(listener.status())) << listener.status();
  EXPECT_DEATH(ControlCall("127.0.0.1:1", StreamNumber(1), events), "needs the job's keys");
}

TEST_F(ControlLocks, WhoHasNoCertificateIsNotHeard) {
  JobKeys stranger;
  stranger.authority = test_keys()->authority;
  expect_refused(stranger);
  expect_that_agents_are_heard();
}

TEST_F(ControlLocks, WhoHasTheCertificateOfAnotherJobIsNotHeard) {
  expect_refused(*other_keys());
  JobKeys trusting = *other_keys();  // itself it would talk to us
  trusting.authority = test_keys()->authority;
  expect_refused(trusting);
  expect_that_agents_are_heard();
}

TEST_F(ControlLocks, PlainTextIsNotHeard) {
  for (const char* const words :
       {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01"}) {
    const FileDescriptor stranger = connect_to(listener_->address());
    ASSERT_GT(::send(stranger.get(), words, std::strlen(words) + 1, MSG_NOSIGNAL), 0);
    ::shutdown(stranger.get(), SHUT_WR);
    EXPECT_TRUE(is_cut(stranger, absl::Seconds(20))) << words;
  }
  EXPECT_FALSE(server_.is_any_within(50));
  expect_that_agents_are_heard();
}

TEST_F(ControlLocks, AnAgentDoesNotTalkToAnotherJobsController) {
  RecordedEvents impostor, agent;
  const auto elsewhere = ControlListener::start("127.0.0.1:0", impostor, other_keys());
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  ControlCall call((*elsewhere)->address(), StreamNumber(1), agent, test_keys());
  call.send({0, AgentHello{Node(1), 7}});
  EXPECT_FALSE(agent.next().envelope);
  EXPECT_FALSE(impostor.is_any_within(50));
}

TEST_F(ControlLocks, SilentConnectionsDoNotStallTheJob) {
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect_to(listener_->address()));
  expect_that_agents_are_heard();
  // A few bytes of a handshake, and then nothing.
  for (const FileDescriptor& one : silent)
    ASSERT_GT(::send(one.get(), "\x16\x03\x01\x02", 4, MSG_NOSIGNAL), 0);
  expect_that_agents_are_heard();
}

TEST_F(ControlLocks, MoreSilentConnectionsThanThereMayBeAreCut) {
  std::vector<FileDescriptor> silent;
  for (size_t i = 0; i < UnprovenConnections::kMax + 50; ++i)
    silent.push_back(connect_to(listener_->address()));
  expect_that_agents_are_heard();
  EXPECT_TRUE(is_cut(silent.front(), absl::Seconds(20))) << "the oldest one has gone";
}

TEST_F(ControlLocks, FirstWordsThatAreNoHelloEndTheStream) {
  RecordedEvents agent;
  ControlCall call(listener_->address(), StreamNumber(1), agent, test_keys());
  WorkerLogTail much;
  for (int i = 0; i < 100; ++i) much.lines.emplace_back(1000, 'x');
  call.send({0, much});
  EXPECT_FALSE(agent.next().envelope);
  EXPECT_FALSE(server_.next().envelope);
  // Later ones may be large.
  RecordedEvents good;
  ControlCall second(listener_->address(), StreamNumber(2), good, test_keys());
  second.send({0, Beat{}});
  second.send({0, much});
  EXPECT_TRUE(server_.next().envelope);
  EXPECT_TRUE(server_.next().envelope);
}

TEST(LocalControlLocks, APathThatOthersReachIsRefused) {
  RecordedEvents events;
  std::string open = testing::TempDir() + "open-XXXXXX";
  ASSERT_NE(::mkdtemp(open.data()), nullptr);
  ::chmod(open.c_str(), 0755);
  for (const std::string& address :
       {absl::StrCat("unix:", open, "/s"), std::string("unix-abstract:evermoe-1"),
        absl::StrCat("unix:/", std::string(200, 'x'))}) {
    const auto listener = ControlListener::start(address, events);
    EXPECT_TRUE(absl::IsInvalidArgument(listener.status())) << listener.status();
  }
  ::rmdir(open.c_str());
}

bool can_connect(const std::string& path) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.data(), path.size());
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
}

bool can_listen(const std::string& path) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.data(), path.size());
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
}

// Neither send anything to a controller, nor take the place of one.
TEST(LocalControlLocks, AnotherUserReachesNothing) {
  const auto folder = PrivateFolder::make().value();
  const std::string taken = folder->path() + "/controller", free = folder->path() + "/agent-0-1";
  if (::geteuid() == 0) {  // only root can become somebody else; others have the folder's mode
    RecordedEvents events;
    FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(can_listen(free));
    ::unlink(free.c_str());
    EXPECT_FALSE(can_another_user([&] { return can_listen(free); })) << "squats a name";
    EXPECT_FALSE(can_another_user([&] { return ::unlink(taken.c_str()) == 0; }));
    EXPECT_FALSE(can_another_user([&] { return ::rmdir(folder->path().c_str()) == 0; }));
    EXPECT_FALSE(can_another_user(
        [&] { return ::rename(folder->path().c_str(), (folder->path() + "-gone").c_str()) == 0; }));
    const auto control = ControlListener::start(folder->address("controller"), events);
    ASSERT_TRUE(control.ok()) << control.status();
    ASSERT_TRUE(can_connect(taken));
    EXPECT_FALSE(can_another_user([&] { return can_connect(taken); })) << "could say Drain";
  }
  struct stat found {};
  ASSERT_EQ(::stat(folder->path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
  EXPECT_EQ(found.st_uid, ::geteuid());
}

}  // namespace
}  // namespace evermoe
