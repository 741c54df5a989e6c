// Lines between agents: real sockets, real keys, and strangers.
#include "control/agent/agent_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "control/keys/job_keys_testing.h"
#include "control/wire/private_folder.h"
#include "control/wire/stream_events_testing.h"
#include "env/clock.h"

namespace evermoe {
namespace {

using ::testing::StartsWith;

constexpr char kController[] = "127.0.0.1:7";  // nobody has to be there
const PlanName kWanted{View(2), {3, 4}};

AgentLines::Arrived next_of(AgentLines& lines) {
  for (int tries = 0; tries < 200; ++tries) {
    pollfd waiting{lines.fd(), POLLIN, 0};
    ::poll(&waiting, 1, 100);
    std::vector<AgentLines::Arrived> mail = lines.take();
    if (!mail.empty()) return std::move(mail.front());
  }
  ADD_FAILURE() << "nothing has come";
  return {};
}

bool hears_nothing(AgentLines& lines) {
  pollfd waiting{lines.fd(), POLLIN, 0};
  ::poll(&waiting, 1, 50);
  return lines.take().empty();
}

PlanUpdate plan_of(int ranks) {
  Plan plan;
  plan.view = View(2);
  for (int r = 0; r < ranks; ++r) plan.table.push_back({std::string(300, 'x'), View(1)});
  return update_of(nullptr, plan);
}

void expect_that_a_plan_is_told(AgentLines& server, AgentLines& client, const std::string& at) {
  const StreamNumber call = client.call(at, {0, PlanWanted{kWanted}});
  const AgentLines::Arrived question = next_of(server);
  ASSERT_TRUE(question.is_of_caller() && question.envelope);
  EXPECT_EQ(std::get<PlanWanted>(question.envelope->message).plan, kWanted);
  server.send(question.line, {0, plan_of(10'000)});
  const AgentLines::Arrived answer = next_of(client);
  ASSERT_TRUE(answer.line == call && answer.envelope);
  EXPECT_EQ(std::get<PlanUpdate>(answer.envelope->message).table.size, 10'000);
  client.hang_up(call);
  const AgentLines::Arrived end = next_of(server);
  EXPECT_TRUE(end.line == question.line && !end.envelope);
}

TEST(AgentLines, AnAgentAsksAndIsToldOverANetwork) {
  AgentLines server(test_keys(), ""), client(test_keys(), "");
  const std::string address = server.listen(kController);
  ASSERT_THAT(address, StartsWith("127.0.0.1:"));
  EXPECT_EQ(server.listen("10.0.0.1:7"), address) << "it listens already";
  expect_that_a_plan_is_told(server, client, address);
}

TEST(AgentLines, AnAgentAsksAndIsToldInsideAMachine) {
  const auto folder = PrivateFolder::make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  AgentLines server(nullptr, (*folder)->address("one-lines")), client(nullptr, "");
  const std::string address = server.listen((*folder)->address("controller"));
  EXPECT_EQ(address, (*folder)->address("one-lines"));
  expect_that_a_plan_is_told(server, client, address);
}

TEST(AgentLines, InAFolderThatOthersCanSearchNobodyListens) {
  const auto folder = PrivateFolder::make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_EQ(::chmod((*folder)->path().c_str(), 0755), 0);
  AgentLines lines(nullptr, (*folder)->address("one-lines"));
  EXPECT_EQ(lines.listen((*folder)->address("controller")), "");
}

TEST(AgentLines, WhoIsCutOffOrFindsNobodyLearnsIt) {
  AgentLines client(test_keys(), "");
  std::string address;
  {
    AgentLines server(test_keys(), "");
    address = server.listen(kController);
    client.call(address, {0, PlanWanted{kWanted}});
    server.hang_up(next_of(server).line);
    EXPECT_FALSE(next_of(client).envelope);
  }
  client.call(address, {0, PlanWanted{kWanted}});
  const AgentLines::Arrived refused = next_of(client);
  EXPECT_FALSE(refused.envelope);
  EXPECT_FALSE(refused.why.empty());
}

TEST(AgentLines, NothingIsHeardOfALineThatWasHungUp) {
  AgentLines server(test_keys(), ""), client(test_keys(), "");
  const std::string address = server.listen(kController);
  const StreamNumber first = client.call(address, {0, PlanWanted{kWanted}});
  server.send(next_of(server).line, {0, plan_of(1)});
  pollfd waiting{client.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 20'000), 1);
  client.hang_up(first);
  EXPECT_TRUE(client.take().empty());
  client.send(first, {0, plan_of(1)});
  client.hang_up(first);
}

// ---- strangers

TEST(AgentLines, WhoHasOtherKeysIsNotHeardAndGetsNothing) {
  AgentLines server(test_keys(), ""), agent(test_keys(), "");
  AgentLines stranger(other_keys(), "");
  const std::string address = server.listen(kController);
  stranger.call(address, {0, PlanWanted{kWanted}});
  EXPECT_FALSE(next_of(stranger).envelope);
  EXPECT_TRUE(hears_nothing(server));
  expect_that_a_plan_is_told(server, agent, address);
}

// Who can take the address of an agent still has no answer that anybody would take.
TEST(AgentLines, AnImpostorIsNotAsked) {
  AgentLines agent(test_keys(), "");
  AgentLines impostor(other_keys(), "");
  agent.call(impostor.listen(kController), {0, PlanWanted{kWanted}});
  EXPECT_FALSE(next_of(agent).envelope);
  EXPECT_TRUE(hears_nothing(impostor));
}

TEST(AgentLines, WithoutKeysThereAreNoLinesOverANetwork) {
  AgentLines lines(nullptr, "");
  EXPECT_EQ(lines.listen(kController), "");
  lines.call("127.0.0.1:7", {0, PlanWanted{kWanted}});
  EXPECT_THAT(next_of(lines).why, testing::HasSubstr("no keys"));
}

TEST(AgentLines, WhereNobodyKnowsTheControllerNobodyListens) {
  AgentLines lines(test_keys(), "");
  EXPECT_EQ(lines.listen(""), "");
  EXPECT_EQ(lines.listen("no-such-host.invalid:7"), "");
  EXPECT_FALSE(lines.is_listening());
}

// ---- limits

// Also later than at its first word.
TEST(AgentLines, ACallerThatSaysTooMuchIsCut) {
  AgentLines server(test_keys(), ""), client(test_keys(), "");
  const StreamNumber call = client.call(server.listen(kController), {0, PlanWanted{kWanted}});
  ASSERT_TRUE(next_of(server).envelope);
  client.send(call, {0, JobEvent{std::string(AgentLines::kQuestionBytesMax + 1, 'x')}});
  EXPECT_FALSE(next_of(server).envelope);
  EXPECT_FALSE(next_of(client).envelope);
}

TEST(AgentLines, MoreCallersThanThereMayBeAreCut) {
  const auto folder = PrivateFolder::make();
  ASSERT_TRUE(folder.ok()) << folder.status();
  AgentLines server(nullptr, (*folder)->address("one-lines"));
  const std::string address = server.listen((*folder)->address("controller"));
  RecordedEvents events;
  std::vector<std::unique_ptr<ControlCall>> callers;
  for (size_t n = 1; n <= AgentLines::kCallersMax; ++n) {
    callers.push_back(
        std::make_unique<ControlCall>(address, StreamNumber(static_cast<int64_t>(n)), events));
    callers.back()->send({0, PlanWanted{kWanted}});
    ASSERT_TRUE(next_of(server).envelope);
  }
  AgentLines late(nullptr, "");
  late.call(address, {0, PlanWanted{kWanted}});
  for (int tries = 0; tries < 100 && server.take().empty(); ++tries) {
    pollfd waiting{late.fd(), POLLIN, 0};
    if (::poll(&waiting, 1, 100) > 0) break;
  }
  EXPECT_FALSE(next_of(late).envelope);
  callers.pop_back();
  EXPECT_FALSE(next_of(server).envelope);
  late.call(address, {0, PlanWanted{kWanted}});
  EXPECT_TRUE(next_of(server).envelope) << "there is room again";
}

}  // namespace
}  // namespace evermoe
