// What a configuration means for the control plane, and the command lines of its processes.
#include "control/controller/control_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "control/launch/control_processes.h"
#include "data/folder_testing.h"

namespace evermoe {
namespace {

JobConfig configured(const std::string& text) {
  return parse_config(text, "test", "/", {}).value();
}

TEST(SignsOfLifeTest, EveryLimitFollowsFromTheHeartbeat) {
  struct Row {
    double heartbeat;
    absl::Duration beat, worker, node, controller, standstill;
  };
  using absl::Milliseconds, absl::Seconds, absl::Minutes;
  const Row rows[] = {
      {0.01, Milliseconds(10), Seconds(1), Seconds(1), Seconds(1), Seconds(2)},
      {0.1, Milliseconds(100), Seconds(1), Seconds(2), Seconds(2), Seconds(2)},
      {0.5, Milliseconds(500), Seconds(3), Seconds(10), Seconds(10), Seconds(2)},
      {3, Seconds(3), Seconds(18), Minutes(1), Minutes(1), Seconds(12)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.heartbeat);
    JobConfig config;
    config.protection.heartbeat_seconds = row.heartbeat;
    const ControllerServerOptions controller = controller_options(config);
    const AgentCoreOptions agent = agent_options(config);
    EXPECT_EQ(signs_of_life(config.protection).beat, row.beat) << "of workers";
    EXPECT_EQ(controller.relay.beat, row.beat);
    EXPECT_EQ(agent.beat, row.beat);
    EXPECT_EQ(controller.core.silence_max, row.worker);
    EXPECT_EQ(controller.relay.silence_max, row.node);
    EXPECT_EQ(agent.silence_max, row.controller);
    EXPECT_EQ(controller.relay.own_standstill, row.standstill);
    EXPECT_EQ(agent.own_standstill, row.standstill);
  }
}

TEST(ControlOptionsTest, TheControllerFollowsTheConfiguration) {
  const ControllerServerOptions options = controller_options(configured(R"(
    [parallel]
    stages = 2
    lanes = [3, 1]
    [run]
    nodes = 4
    spares = 2
    racks = 2
    deadline_seconds = 4
    [protection]
    copies = 2
    failure_domain = "rack"
    step_deadline_medians = 7
    recovery_deadline_seconds = 30
  )"));
  EXPECT_THAT(options.lanes, testing::ElementsAre(3, 1));
  const ControllerOptions& core = options.core;
  EXPECT_EQ(core.nodes, 4);
  EXPECT_EQ(core.spares, 2);
  EXPECT_EQ(core.racks, 2);
  EXPECT_EQ(core.copies, 2);
  EXPECT_EQ(core.copy_level, DomainLevel::kRack);
  EXPECT_TRUE(core.strategy.keeps_copies());
  EXPECT_EQ(core.step_max, absl::Seconds(4));
  EXPECT_EQ(core.goes_on_max, options.relay.silence_max);
  EXPECT_EQ(core.probe_min, absl::Seconds(2));
  EXPECT_EQ(core.medians_max, 7);
  EXPECT_EQ(core.load_max, absl::Seconds(30));
  EXPECT_EQ(core.start_max, absl::Seconds(30))
      << "no role may take longer to come up than to be recovered";
}

// Two for its own sign and its agent's, and as many for the plan.
TEST(ControlOptionsTest, AProbeLastsUntilEverybodyCanHaveSaidWhereItIs) {
  const JobConfig config =
      configured("[protection]\nheartbeat_seconds = 3\n[run]\ndeadline_seconds = 20\n");
  EXPECT_EQ(controller_options(config).core.probe_min, absl::Seconds(12));
}

TEST(ControlOptionsTest, AStoredConfigurationNeedsNoData) {
  const TestFolder folder;
  JobConfig config = configured("[run]\nnodes = 3\n");
  config.data.path = "/there/is/no/such.tokens";
  const std::string path = folder.write("config.toml", to_toml(config));
  EXPECT_EQ(load_stored_config(path).value(), config);
  EXPECT_TRUE(absl::IsNotFound(load_stored_config(folder.path("none")).status()));
}

template <typename Options>
Options reparsed(const Options& options) {
  CLI::App app;
  Options again;
  add_flags(app, again);
  const std::vector<std::string> flags = to_flags(options);
  app.parse(std::vector<std::string>(flags.rbegin(), flags.rend()));
  return again;
}

TEST(ControlProcessesTest, FlagsParseBack) {
  const ControllerProcessOptions controller = reparsed(ControllerProcessOptions{
      .config = "/o/config.toml", .address = "unix:/p/x", .life = 3, .keys = "/o/keys"});
  EXPECT_EQ(controller.config, "/o/config.toml");
  EXPECT_EQ(controller.address, "unix:/p/x");
  EXPECT_EQ(controller.keys, "/o/keys");
  EXPECT_EQ(controller.life, 3);
  const AgentProcessOptions agent = reparsed(AgentProcessOptions{
      .config = "/o/config.toml",
      .out = "/o",
      .node = Node(7),
      .controller = "h:1",
      .keys = "/k",
      .address = "h:2",
      .secret = "/k/secret",
      .kept_fd = 5,
      .worker = "/bin/w",
      .worker_arguments = {"train", "--config", "/o/config.toml", "--out", "/o"}});
  EXPECT_EQ(agent.out, "/o");
  EXPECT_EQ(agent.node, Node(7));
  EXPECT_EQ(agent.controller, "h:1");
  EXPECT_EQ(agent.keys, "/k");
  EXPECT_EQ(agent.secret, "/k/secret");
  EXPECT_EQ(agent.address, "h:2");
  EXPECT_EQ(agent.kept_fd, 5);
  EXPECT_EQ(agent.worker, "/bin/w");
  EXPECT_THAT(agent.worker_arguments,
              testing::ElementsAre("train", "--config", "/o/config.toml", "--out", "/o"))
      << "a worker's flags are not the agent's";
}

}  // namespace
}  // namespace evermoe
