#include "planner/measured/runtime_profile.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "absl/strings/str_replace.h"
#include "planner/measured/runtime_profile_fuzz_entry.h"

namespace evermoe {
namespace {

RuntimeProfile small_profile() {
  RuntimeProfile profile{.fingerprint = job_fingerprint(JobConfig()),
                         .build = "0.1.0-3f9c2a1b77d0",
                         .stages = 2,
                         .ranks = 4,
                         .nodes = 1,
                         .step_seconds = 0.1,
                         .begin_seconds = 2,
                         .end_seconds = 0.25};
  profile.strategies = {
      {.kind = StrategyKind::kNone, .step_seconds = 0.1, .worker = {.failures = 3}},
      {.kind = StrategyKind::kSparse,
       .step_seconds = 0.11,
       .window_steps = 4,
       .worker = {.load_seconds = 1.0 / 3, .settle_seconds = -0.01, .failures = 6},
       .node = {.view_seconds = 3, .failures = 2},
       .standby = {.view_seconds = 0.0625, .failures = 5},
       .move = {.hand_over_seconds = 0.125,
                .switch_seconds = 1.0 / 3,
                .load_seconds = 0.25,
                .settle_seconds = -0.5,
                .bytes = 4e12,
                .moves = 4}}};
  profile.recovery = {.detect_seconds = 0.01,
                      .restart_seconds = 2.5,
                      .standby_seconds = 0.75,
                      .migrate_seconds = 0.375};
  return profile;
}

TEST(RuntimeProfileTest, SurvivesItsText) {
  const auto again = parse_runtime_profile(to_toml(small_profile()), "p.toml");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, small_profile());
}

TEST(RuntimeProfileTest, SaysInOneLineWhatIsWrong) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"version = 3", "version = 2", "p.toml:2: version: found 2, allowed: 3"},
      {"version = 3", "", "version: found nothing"},
      {"stages = 2", "stages = 5", "ranks: found 4, allowed: an integer from 5"},
      {"stages = 2", "stages = 2.0", "stages"},
      {"stages = 2", "stages = 2\nrounds = 3", "found job.rounds"},
      {"begin_seconds = 2.0", "begin_seconds = nan", "begin_seconds"},
      {"begin_seconds = 2.0", "begin_seconds = \"2\"", "begin_seconds: found \"2\""},
      {"step_seconds = 0.11", "step_seconds = 0.0", "step_seconds"},
      {"window_steps = 4.0", "window_steps = -4.0", "window_steps"},
      {"window_steps = 4.0", "", "window_steps"},
      {"\"sparse\"", "\"sparce\"", "name: found \"sparce\""},
      {"\"sparse\"", "\"none\"", "each strategy once"},
      {"name = \"none\"", "name = \"dense\"", "\"none\" among them"},
      {"fingerprint = \"", "fingerprint = \"0", "fingerprint"},
      {"build = \"", "build = \" ", "build: found"},
      {"failures = 2", "failures = 0", "failures: found 0, allowed: an integer from 1"},
      {"view_seconds = 3.0", "vew_seconds = 3.0", "found strategy.node.vew_seconds"},
      {"[strategy.node]", "[strategy.nodes]", "found strategy.nodes, allowed: begin_seconds"},
      {"[strategy.standby]", "[strategy.standbys]", "found strategy.standbys, allowed: begin"},
      {"failures = 5", "failures = 0", "failures: found 0, allowed: an integer from 1"},
      {"moves = 4", "", "moves: found nothing, allowed: an integer from 1"},
      {"moves = 4", "moves = 4\nrole = 1", "found strategy.move.role, allowed: bytes"},
      {"hand_over_seconds = 0.125", "", "hand_over_seconds: found nothing, allowed: a number"},
      {"bytes = 4e+12", "bytes = -1", "bytes: found -1, allowed: a number from 0 to 1e+18"},
      {"migrate_seconds = 0.375", "", "migrate_seconds: found nothing, allowed: a number from 0"},
      {"migrate_seconds = 0.375", "migrate_seconds = -1", "migrate_seconds: found -1, allowed"},
      {"standby_seconds = 0.75", "standbys_seconds = 1", "found recovery.standbys_seconds"},
      {"[recovery]", "[[recovery]]", "recovery: found"},
      {"[job]", "[job", "p.toml:4:5: not TOML"},
  };
  for (const auto& [from, to, expected] : cases) {
    const std::string text = absl::StrReplaceAll(to_toml(small_profile()), {{from, to}});
    const auto read = parse_runtime_profile(text, "p.toml");
    ASSERT_FALSE(read.ok()) << to;
    const std::string message(read.status().message());
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(RuntimeProfileTest, AnyBytesAreReadOrRefused) {
  const std::string text = to_toml(small_profile());
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = text;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits && !bytes.empty(); ++i) {
      const size_t at = random() % bytes.size();
      if (random() % 3 == 0)
        bytes.erase(at, 1 + random() % 30);
      else
        bytes[at] = static_cast<char>(random() % 256);
    }
    fuzz_runtime_profile(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

TEST(RuntimeProfileTest, FingerprintIsOfWhatStepsDependOn) {
  JobConfig job;
  const std::string usual = job_fingerprint(job);
  job.train.steps = 77;
  job.protection.strategy = StrategyKind::kDense;
  job.checkpoint.every_steps = 3;
  EXPECT_EQ(job_fingerprint(job), usual);
  job.protection.dense_every_steps = 3;
  EXPECT_NE(job_fingerprint(job), usual);
  job = JobConfig();
  job.checkpoint.local_directory = "/fast";  // a save to two tiers costs another time
  EXPECT_NE(job_fingerprint(job), usual);
  job = JobConfig();
  job.train.micro_batches *= 2;
  EXPECT_NE(job_fingerprint(job), usual);
}

}  // namespace
}  // namespace evermoe
