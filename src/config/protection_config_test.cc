#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/key_builders.h"
#include "config/parse_config_testing.h"
#include "config/validate_config.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// What the one setting is refused with, without the place.
std::string protection_error(const std::string& setting) {
  const std::string place = "--set " + setting + ": ";
  const std::string error = error_of("", {setting});
  EXPECT_EQ(error.substr(0, place.size()), place);
  return error.substr(std::min(place.size(), error.size()));
}

constexpr char kEveryKey[] = R"(
    [protection]
    strategy = "dense"
    copies = 3
    memory_budget = "512MiB"
    window = 7
    window_every_steps = 9
    dense_every_steps = 5
    base_every_steps = 6
    experts_saved = 2
    experts_in_memory = 3
    expert_selection = "load-aware"
    plt_max = 0.125
    part_bytes = "3MiB"
    ordering = "decayed"
    reorder_share = 0.5
    reorder_change = 1
    copy_bandwidth = 100000000
    mtbf_seconds = 60
    failure_domain = "rack"
    step_deadline_medians = 3.5
    heartbeat_seconds = 0.1
    recovery_deadline_seconds = 12
    [run]
    nodes = 6
    spares = 2
    racks = 4
)";

TEST(ProtectionConfigTest, ByDefaultOneSparseCopyOnAnotherNode) {
  const JobConfig config = parsed("");
  EXPECT_EQ(config.protection, ProtectionConfig{});
  EXPECT_EQ(config.protection.strategy, StrategyKind::kSparse);
  EXPECT_EQ(config.protection.copies, 1);
  EXPECT_EQ(config.protection.memory_budget, 4 * kGiB);
  EXPECT_EQ(config.protection.copy_bandwidth, kGiB);
  EXPECT_EQ(config.protection.failure_domain, FailureDomain::kNode);
  EXPECT_THAT(to_toml(config), HasSubstr("memory_budget = \"4GiB\"\nwindow = \"auto\"\n"));
  EXPECT_THAT(to_toml(config), HasSubstr("part_bytes = \"auto\"\n"));
}

TEST(ProtectionConfigTest, EveryKeyIsReadAndWritten) {
  const JobConfig config = parsed(kEveryKey);
  ProtectionConfig expected;
  expected.strategy = StrategyKind::kDense;
  expected.copies = 3;
  expected.memory_budget = 512 * kMiB;
  expected.window = 7;
  expected.window_every_steps = 9;
  expected.dense_every_steps = 5;
  expected.base_every_steps = 6;
  expected.experts_saved = 2;
  expected.experts_in_memory = 3;
  expected.expert_selection = ExpertSelection::kLoadAware;
  expected.plt_max = 0.125;
  expected.part_bytes = 3 * kMiB;
  expected.ordering = CaptureOrdering::kDecayed;
  expected.reorder_share = 0.5;
  expected.reorder_change = 1;
  expected.copy_bandwidth = 100'000'000;
  expected.mtbf_seconds = 60;
  expected.failure_domain = FailureDomain::kRack;
  expected.step_deadline_medians = 3.5;
  expected.heartbeat_seconds = 0.1;
  expected.recovery_deadline_seconds = 12;
  EXPECT_EQ(config.protection, expected);
  EXPECT_EQ(config.run.nodes, 6);
  EXPECT_EQ(config.run.spares, 2);
  EXPECT_EQ(config.run.racks, 4);
  EXPECT_EQ(parsed(to_toml(config)), config);
}

TEST(ProtectionConfigTest, EveryChoiceSurvivesTheRoundTrip) {
  for (const char* setting : {"strategy=sparse",
                              "strategy=dense",
                              "strategy=none",
                              "strategy=gradients",
                              "ordering=auto",
                              "ordering=popularity",
                              "ordering=soft",
                              "ordering=decayed",
                              "ordering=capacity",
                              "ordering=ratio",
                              "failure_domain=worker",
                              "failure_domain=node",
                              "failure_domain=rack",
                              "window=auto",
                              "window=1000",
                              "memory_budget=1.5GiB",
                              "memory_budget=1234567",
                              "copy_bandwidth=2 TiB",
                              "part_bytes=auto",
                              "part_bytes=1024",
                              "part_bytes=1.5MiB",
                              "strategy=peer-memory",
                              "strategy=checkfreq",
                              "overhead_budget=0.01",
                              "strategy=partial-experts",
                              "expert_selection=sequential"}) {
    const JobConfig config = parsed("", {std::string("protection.") + setting});
    EXPECT_EQ(parsed(to_toml(config)), config) << setting;
  }
}

TEST(ProtectionConfigTest, NoKeyOfItChangesBits) {
  EXPECT_EQ(bits_identity(parsed(kEveryKey)), bits_identity(parsed("")));
}

TEST(ProtectionConfigTest, SparesAreInRacksToo) {
  EXPECT_TRUE(check_racks({.nodes = 3, .spares = 2, .racks = 5}).ok());
  EXPECT_EQ(check_racks({.nodes = 3, .spares = 2, .racks = 6}).message(),
            "run.racks: found 6, allowed: at most as many as nodes, with spares (5)");
}

TEST(ProtectionErrorTest, PartialExperts) {
  const auto error = [](const std::string& setting) {
    return error_of("[protection]\nstrategy = \"partial-experts\"\n", {setting});
  };
  EXPECT_EQ(error("protection.experts_saved=9"),
            "--set protection.experts_saved=9: protection.experts_saved: found 9, allowed: at most "
            "model.experts (8)");
  EXPECT_THAT(error("protection.experts_in_memory=9"),
              HasSubstr("found 9, allowed: protection.experts_saved (1) to model.experts (8), or 0 "
                        "for all"));
  EXPECT_EQ(parsed("", {"protection.experts_saved=9"}).protection.experts_saved, 9)
      << "of no meaning to other strategies";
}

TEST(ProtectionErrorTest, Choices) {
  EXPECT_EQ(protection_error("protection.strategy=full"),
            "protection.strategy: found \"full\", allowed: sparse, dense, gradients, peer-memory, "
            "checkfreq, partial-experts, none");
  EXPECT_EQ(
      protection_error("protection.ordering=random"),
      "protection.ordering: found \"random\", allowed: auto, popularity, soft, decayed, capacity, "
      "ratio");
  EXPECT_EQ(protection_error("protection.failure_domain=switch"),
            "protection.failure_domain: found \"switch\", allowed: worker, node, rack");
}

TEST(ProtectionErrorTest, Integers) {
  EXPECT_EQ(protection_error("protection.copies=9"),
            "protection.copies: found 9, allowed: integer from 0 to 8");
  for (const char* window : {"0", "1001", "2.0", "\"5\"", "\"never\""}) {
    EXPECT_EQ(protection_error(std::string("protection.window=") + window),
              std::string("protection.window: found ") + window +
                  ", allowed: auto, or integer from 1 to 1000");
  }
  EXPECT_EQ(protection_error("protection.dense_every_steps=0"),
            "protection.dense_every_steps: found 0, allowed: integer from 1 to 1000000000");
  EXPECT_EQ(protection_error("run.nodes=0"), "run.nodes: found 0, allowed: integer from 1 to 4096");
  EXPECT_EQ(protection_error("run.spares=-1"),
            "run.spares: found -1, allowed: integer from 0 to 4096");
  EXPECT_EQ(protection_error("run.racks=4097"),
            "run.racks: found 4097, allowed: integer from 0 to 4096");
}

TEST(ProtectionErrorTest, Amounts) {
  const std::string allowed =
      ", allowed: integer of bytes, or text such as \"512MiB\" or \"1.5GiB\", from 1KiB to 1024TiB";
  for (const char* found :
       {"0", "1023", "-1", "4.5", "true", "\"\"", "\"4\"", "\"GiB\"", "\"4GB\"", "\"-4GiB\"",
        "\"4  GiB\"", "\"4gib\"", "\"1.2.3GiB\"", "\"1e3GiB\"", "\"infGiB\"", "\"1023B\"",
        "\"1025TiB\"", "\"99999999999999999999TiB\""}) {
    EXPECT_EQ(protection_error(std::string("protection.memory_budget=") + found),
              std::string("protection.memory_budget: found ") + found + allowed);
  }
  EXPECT_EQ(protection_error("protection.copy_bandwidth=1kB"),
            "protection.copy_bandwidth: found \"1kB\"" + allowed);
  const std::string or_chosen =
      ", allowed: auto, or " + allowed.substr(std::string(", allowed: ").size());
  for (const char* found : {"0", "1023", "true", "\"Auto\"", "\"1kB\""}) {
    EXPECT_EQ(protection_error(std::string("protection.part_bytes=") + found),
              std::string("protection.part_bytes: found ") + found + or_chosen);
  }
}

TEST(ProtectionErrorTest, Numbers) {
  EXPECT_EQ(protection_error("protection.reorder_share=0"),
            "protection.reorder_share: found 0, allowed: number x with 0 < x <= 1");
  EXPECT_EQ(protection_error("protection.reorder_change=1.5"),
            "protection.reorder_change: found 1.5, allowed: number x with 0 < x <= 1");
  EXPECT_EQ(protection_error("protection.mtbf_seconds=0"),
            "protection.mtbf_seconds: found 0, allowed: number x with 0 < x <= 1e+09");
  EXPECT_EQ(protection_error("protection.step_deadline_medians=1.9"),
            "protection.step_deadline_medians: found 1.9, allowed: number x with 2 <= x <= 1e+06");
  EXPECT_EQ(protection_error("protection.heartbeat_seconds=0"),
            "protection.heartbeat_seconds: found 0, allowed: number x with 0.01 <= x <= 3600");
  EXPECT_EQ(protection_error("protection.recovery_deadline_seconds=nan"),
            "protection.recovery_deadline_seconds: found nan, allowed: number x with 0.1 <= x <= "
            "86400");
}

TEST(BytesTest, TextIsRead) {
  EXPECT_EQ(bytes_of_text("17B"), 17);
  EXPECT_EQ(bytes_of_text("2KiB"), 2048);
  EXPECT_EQ(bytes_of_text("512 MiB"), 512 * kMiB);
  EXPECT_EQ(bytes_of_text("1.5GiB"), 3 * kGiB / 2);
  EXPECT_EQ(bytes_of_text("0.1KiB"), 102);  // parts of a byte are dropped
  EXPECT_EQ(bytes_of_text("3TiB"), 3072 * kGiB);
}

TEST(BytesTest, WrittenInTheLargestWholeUnit) {
  EXPECT_EQ(bytes_to_toml(0), "0");
  EXPECT_EQ(bytes_to_toml(1000), "1000");
  EXPECT_EQ(bytes_to_toml(1536), "1536");
  EXPECT_EQ(bytes_to_toml(3 * kGiB / 2), "\"1536MiB\"");
  EXPECT_EQ(bytes_to_toml(1024 * kGiB), "\"1TiB\"");
}

}  // namespace
}  // namespace evermoe
