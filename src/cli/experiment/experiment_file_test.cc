#include "cli/experiment/experiment_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace evermoe {
namespace {

constexpr char kExperimentText[] = R"(strategies = ["sparse", "none"]
seeds = [1, 7]
[model]
config = "tiny.toml"
settings = ["train.steps=20"]
[[failures]]
law = "exponential"
mtbf_steps = 40
[[failures]]
law = "weibull"
shape = 0.7
mtbf_steps = 40
[[failures]]
trace = "t.csv"
)";

TEST(ExperimentFile, IsRead) {
  const auto read = parse_experiment(kExperimentText, "dir/e.toml");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->config, "dir/tiny.toml");
  EXPECT_EQ(read->settings, std::vector<std::string>{"train.steps=20"});
  EXPECT_EQ(read->seeds, (std::vector<uint64_t>{1, 7}));
  ASSERT_EQ(read->failures.size(), 3u);
  EXPECT_EQ(read->failures[0].name, "exponential-40");
  EXPECT_EQ(read->failures[1].name, "weibull-0.7-40");
  EXPECT_EQ(read->failures[1].shape, 0.7);
  EXPECT_EQ(read->failures[2].trace, "dir/t.csv");
  EXPECT_EQ(read->failures[2].lost_together, 1);
  EXPECT_EQ(read->yardstick_share, 0.2);
  const auto longer =
      parse_experiment(std::string("yardstick_share = 0.5\n") + kExperimentText, "e.toml");
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->yardstick_share, 0.5);
}

TEST(ExperimentFile, NamesNodesThatAreLostTogether) {
  const auto read = parse_experiment(
      absl::StrReplaceAll(kExperimentText, {{"shape = 0.7", "shape = 0.7\nlost_together = 2"}}),
      "e.toml");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->failures[1].lost_together, 2);
  EXPECT_EQ(read->failures[1].name, "weibull-0.7-40-2-nodes");
}

TEST(ExperimentFile, SystemsAreStrategiesOrAnyOtherSettings) {
  const std::string systems = R"([[systems]]
name = "elastic"
settings = ["elastic.enabled=true"]
)";
  const auto both = parse_experiment(kExperimentText + systems, "e.toml");
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(both->systems.size(), 3u);
  EXPECT_EQ(both->systems[0].name, "sparse");
  EXPECT_EQ(both->systems[0].settings, std::vector<std::string>{"protection.strategy=sparse"});
  EXPECT_TRUE(both->systems[1].is_strategy);
  EXPECT_EQ(both->systems[2].name, "elastic");
  EXPECT_EQ(both->systems[2].settings, std::vector<std::string>{"elastic.enabled=true"});
  EXPECT_FALSE(both->systems[2].is_strategy);
  const std::string alone =
      absl::StrReplaceAll(kExperimentText, {{"strategies = [\"sparse\", \"none\"]\n", ""}});
  EXPECT_EQ(parse_experiment(alone + systems, "e.toml")->systems.size(), 1u);
  EXPECT_FALSE(parse_experiment(alone, "e.toml").ok());
  for (const char* const name : {"sparse", "Elastic", "a/b", ""}) {
    const std::string wrong =
        absl::StrReplaceAll(systems, {{"\"elastic\"", absl::StrCat("\"", name, "\"")}});
    const auto read = parse_experiment(kExperimentText + wrong, "e.toml");
    EXPECT_NE(read.status().message().find("systems.name"), std::string::npos) << read.status();
  }
}

TEST(ExperimentFile, NodesMayBeGone) {
  const auto with = [](const std::string& more) {
    return parse_experiment(
        absl::StrReplaceAll(kExperimentText, {{"shape = 0.7", "shape = 0.7\n" + more}}), "e.toml");
  };
  const auto gone = with("lost = \"node\"\nback_after_steps = 60\nlost_together = 2");
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_TRUE(gone->failures[1].are_gone);
  EXPECT_EQ(gone->failures[1].back_after_steps, 60);
  EXPECT_EQ(gone->failures[1].name, "weibull-0.7-40-2-nodes-gone-back-60");
  EXPECT_FALSE(gone->failures[0].are_gone);
  for (const char* const wrong : {"lost = \"rack\"", "lost = 1", "back_after_steps = 60",
                                  "lost = \"node\"\nback_after_steps = 0"})
    EXPECT_FALSE(with(wrong).ok()) << wrong;
}

TEST(ExperimentFile, SaysInOneLineWhatIsWrong) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"\"none\"", "\"nothing\"", "e.toml:1: strategies"},
      {"\"none\"", "\"sparse\"", "e.toml:1: strategies"},
      {"[1, 7]", "[1, 1]", "e.toml:2: seeds"},
      {"[1, 7]", "[-1]", "e.toml:2: seeds"},
      {"[1, 7]", "[]", "seeds"},
      {"config =", "file =", "e.toml:4: found model.file"},
      {"mtbf_steps = 40", "mtbf_steps = 0", "failures.mtbf_steps"},
      {"seeds", "yardstick_share = 0\nseeds", "yardstick_share"},
      {"seeds", "yardstick_share = 1.5\nseeds", "yardstick_share"},
      {"mtbf_steps = 40", "", "failures.mtbf_steps"},
      {"\"exponential\"", "\"gamma\"", "failures.law"},
      {"\"weibull\"\nshape = 0.7", "\"exponential\"", "each process once"},
      {"trace = \"t.csv\"", "", "failures.law"},
      {"shape = 0.7", "shape = 0.7\nlost_together = 0", "failures.lost_together"},
      {"shape = 0.7", "shape = 0.7\nlost_together = 2.5", "failures.lost_together"},
      {"seeds", "seeds = ", "e.toml:2"},
  };
  for (const auto& [from, to, expected] : cases) {
    const auto read =
        parse_experiment(absl::StrReplaceAll(kExperimentText, {{from, to}}), "e.toml");
    ASSERT_FALSE(read.ok()) << to;
    const std::string message(read.status().message());
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace evermoe
