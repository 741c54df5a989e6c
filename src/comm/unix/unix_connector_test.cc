#include "comm/unix/unix_connector.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "base/error.h"
#include "comm/transport/another_user_testing.h"
#include "comm/transport/transport_testing.h"
#include "comm/unix/unix_transport.h"

namespace evermoe {
namespace {

TEST(UnixConnectorTest, AStrangerThatSaysNothingKeepsNobodyUp) {
  auto zero = listen_unix({});
  auto one = listen_unix({});
  const std::vector<std::string> addresses = {(*zero)->address(), (*one)->address()};
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    auto stranger = call(Rank(0), addresses[0].substr(addresses[0].rfind(':') + 1));
    ASSERT_TRUE(stranger.ok());
    const auto babble = bytes_of(static_cast<size_t>(i % 2 * i), i);
    EXPECT_TRUE(send_all(stranger->get(), babble, Deadline(kPatience)).ok());
    strangers.push_back(*std::move(stranger));
  }
  const auto own = (*zero)->connect(Rank(0), addresses);
  const auto other = (*one)->connect(Rank(1), addresses);
  ASSERT_TRUE(own.ok() && other.ok());
  EXPECT_TRUE(send(**other, 0, tag(1), {}).ok());
  EXPECT_TRUE(receive(**own, 1, tag(1), {}).ok());
}

FileDescriptor raw_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

// An abstract name: true if `what` (::connect or ::bind) works.
template <typename What>
bool can(What what, const FileDescriptor& socket, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return what(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

// Only root can become somebody else; for others the second half says that their own are let in.
TEST(UnixConnectTest, AnotherUserWhoCallsIsRefused) {
  const ListeningSocket listening = listen_on_random_name().value();
  const auto connects = [&] { return can(::connect, raw_socket(), listening.name); };
  if (::geteuid() == 0) {
    ASSERT_TRUE(can_another_user(connects)) << "the kernel lets anybody call an abstract name";
    const auto accepted = accept_call(listening.socket);
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    EXPECT_FALSE(static_cast<bool>(*accepted));
  }
  ASSERT_TRUE(connects());
  const auto own = accept_call(listening.socket);
  EXPECT_TRUE(own.ok() && *own);
}

TEST(UnixConnectTest, AnotherUserWhoTookTheNameOfADeadProcessIsNotTalkedTo) {
  const std::string name = listen_on_random_name().value().name;  // nobody listens there any more
  EXPECT_EQ(accused_rank(call(Rank(3), name).status()), Rank(3));
  if (::geteuid() != 0) return;  // nobody can take it in the name of another user
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t squatter = ::fork();
  if (squatter == 0) {
    const FileDescriptor socket = raw_socket();
    const bool listens = ::setgid(65534) == 0 && ::setuid(65534) == 0 &&
                         can(::bind, socket, name) && ::listen(socket.get(), 5) == 0;
    (void)!::write(told[1], listens ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char listens = 0;
  ASSERT_EQ(::read(told[0], &listens, 1), 1);
  EXPECT_EQ(listens, 'y');
  const auto called = call(Rank(3), name);
  EXPECT_EQ(accused_rank(called.status()), Rank(3)) << called.status();
  ::kill(squatter, SIGKILL);
  ::waitpid(squatter, nullptr, 0);
}

}  // namespace
}  // namespace evermoe
