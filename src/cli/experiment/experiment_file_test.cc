#include "cli/experiment/experiment_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

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
}

TEST(ExperimentFile, NamesNodesThatAreLostTogether) {
  const auto read = parse_experiment(
      absl::StrReplaceAll(kExperimentText, {{"shape = 0.7", "shape = 0.7\nlost_together = 2"}}),
      "e.toml");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->failures[1].lost_together, 2);
  EXPECT_EQ(read->failures[1].name, "weibull-0.7-40-2-nodes");
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
