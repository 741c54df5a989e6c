#include "comm/rendezvous/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "comm/rendezvous/rendezvous_protocol.h"
#include "comm/transport/resolve.h"
#include "comm/transport/socket.h"

#include <sys/socket.h>

namespace evermoe {
namespace {

using testing::HasSubstr;

class RendezvousTest : public testing::Test {
 protected:
  using Result = absl::StatusOr<std::vector<std::string>>;

  void serve(int world_size) {
    auto server = RendezvousServer::start("127.0.0.1", 0, world_size);
    CHECK_OK(server.status());
    server_ = *std::move(server);
    port_ = server_->port();
    world_size_ = world_size;
  }

  Result come(int rank, std::string fingerprint = "cpu=a\nwheel=1",
              absl::Duration timeout = absl::Seconds(20)) {
    return join_rendezvous({absl::StrCat("localhost:", port_), Rank(rank), world_size_,
                            absl::StrCat("address-", rank), std::move(fingerprint)},
                           timeout);
  }

  // One thread per entry; entry i is the fingerprint of rank i.
  std::vector<Result> come_all(const std::vector<std::string>& fingerprints) {
    std::vector<Result> results(fingerprints.size(), absl::UnknownError("did not return"));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < fingerprints.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = come(static_cast<int>(i), fingerprints[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  // A connection that says what it is told to.
  FileDescriptor stranger() {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = resolve("127.0.0.1", port_);
    CHECK(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) ==
          0);
    return socket;
  }

  // A member by hand: joins as `rank`, and returns once nobody but `missing` is missing.
  FileDescriptor member_until_missing(int rank, const std::vector<int>& missing) {
    const Deadline deadline(absl::Seconds(20));
    FileDescriptor socket = stranger();
    const std::string join = encode(JoinMessage{rank, world_size_, "by hand", "f"});
    CHECK_OK(send_all(socket.get(), std::as_bytes(std::span(join)), deadline));
    while (true) {
      std::string length(kLengthBytes, '\0');
      CHECK_OK(receive_all(socket.get(), std::as_writable_bytes(std::span(length)), deadline));
      std::string body(decode_length(length.data()), '\0');
      CHECK_OK(receive_all(socket.get(), std::as_writable_bytes(std::span(body)), deadline));
      const auto reply = decode_reply(body);
      CHECK_OK(reply.status());
      if (reply->missing == missing) return socket;
    }
  }

  std::unique_ptr<RendezvousServer> server_;
  int port_ = 0;
  int world_size_ = 0;
};

TEST_F(RendezvousTest, EverybodyLeavesWithAllAddressesInRankOrder) {
  serve(4);
  for (const Result& result : come_all({"f", "f", "f", "f"})) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(*result, testing::ElementsAre("address-0", "address-1", "address-2", "address-3"));
  }
}

TEST_F(RendezvousTest, OneRankAloneIsComplete) {
  serve(1);
  EXPECT_TRUE(come(0).ok());
}

TEST_F(RendezvousTest, DifferingFingerprintsNameRanksAndKeysToEverybody) {
  serve(3);
  for (const Result& result :
       come_all({"cpu=avx512\nwheel=1", "cpu=avx2\nwheel=1", "cpu=avx512\nwheel=1"})) {
    ASSERT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
    const std::string message(result.status().message());
    EXPECT_THAT(message, HasSubstr("ranks 1 differ from rank 0"));
    EXPECT_THAT(message, HasSubstr("cpu is \"avx2\" on rank 1 and \"avx512\" on rank 0"));
    EXPECT_THAT(message, testing::Not(HasSubstr("wheel")));
  }
}

TEST_F(RendezvousTest, TimeoutNamesTheRanksThatHaveNotCome) {
  serve(4);
  const Result result = come(1, "f", absl::Milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status()));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("ranks 0, 2, 3 have not come"));
  EXPECT_EQ(accused_rank(result.status()), Rank(0));
}

TEST_F(RendezvousTest, ARankThatGaveUpMayComeAgain) {
  serve(2);
  ASSERT_FALSE(come(0, "f", absl::Milliseconds(50)).ok());
  for (const Result& result : come_all({"f", "f"})) EXPECT_TRUE(result.ok()) << result.status();
}

TEST_F(RendezvousTest, TheSecondProcessOfOneRankIsRefused) {
  serve(2);
  const FileDescriptor first = member_until_missing(0, {1});
  const Result second = come(0);
  EXPECT_TRUE(absl::IsInvalidArgument(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("rank 0 has come twice"));
}

TEST_F(RendezvousTest, AnotherWorldSizeIsRefused) {
  serve(2);
  world_size_ = 3;
  EXPECT_THAT(std::string(come(0).status().message()), HasSubstr("believes in 3 ranks"));
}

TEST_F(RendezvousTest, AServerThatStopsEndsTheWaiting) {
  serve(3);
  Result result = absl::UnknownError("");
  std::thread waiting([&] { result = come(0); });
  const FileDescriptor other = member_until_missing(1, {2});
  server_.reset();
  waiting.join();
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
}

TEST_F(RendezvousTest, NoServerIsATimeout) {
  serve(2);
  const std::string gone = absl::StrCat("127.0.0.1:", port_);
  server_.reset();
  const auto result = join_rendezvous({gone, Rank(0), 2, "a", "f"}, absl::Milliseconds(60));
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
}

TEST_F(RendezvousTest, UnknownHostsAndPortsAreInvalid) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      join_rendezvous({"nonsense", Rank(0), 1, "a", "f"}, absl::Seconds(1)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(resolve("127.0.0.1", 70000).status()));
}

TEST_F(RendezvousTest, StrangersDoNotDisturbTheMembers) {
  serve(2);
  std::mt19937 random(11);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(stranger());
    std::string noise(random() % 300, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    ::send(strangers.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL);
  }
  for (const Result& result : come_all({"f", "f"})) EXPECT_TRUE(result.ok()) << result.status();
}

TEST(RendezvousProtocolTest, MessagesSurviveTheirEncoding) {
  const std::string bytes = encode(JoinMessage{3, 4, "a", "x=\"1\"\ny=2"});
  ASSERT_EQ(decode_length(bytes.data()), bytes.size() - kLengthBytes);
  const auto join = decode_join(bytes.substr(kLengthBytes));
  ASSERT_TRUE(join.ok());
  EXPECT_EQ(join->rank, 3);
  EXPECT_EQ(join->fingerprint, "x=\"1\"\ny=2");
}

TEST(RendezvousProtocolTest, DamagedMessagesAreCorruptAndOtherVersionsInvalid) {
  for (const char* body : {"", "[]", "{", "{}", R"({"version":"1"})", R"({"version":1})",
                           R"({"version":1,"rank":"x"})"}) {
    EXPECT_TRUE(absl::IsDataLoss(decode_join(body).status())) << body;
    EXPECT_TRUE(absl::IsDataLoss(decode_reply(body).status())) << body;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(decode_join(R"({"version":2})").status()));
}

}  // namespace
}  // namespace evermoe
