// Runs the real binary: what it prints, where, and its exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/exit_codes.h"
#include "cli/run_binary_testing.h"

namespace evermoe {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

using Result = BinaryResult;

class CliTest : public BinaryTest {};

const std::string kTiny = EVERMOE_SOURCE_DIR "/configs/tiny.toml";

TEST_F(CliTest, SaysItsVersionAndHelps) {
  EXPECT_THAT(run({"--version"}).out, MatchesRegex("evermoe 0.1.0-[0-9a-f]{12}\n"));
  const Result help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* name : {"run", "config", "inspect", "tokenize"}) {
    EXPECT_THAT(help.out, HasSubstr(name));
  }
}

TEST_F(CliTest, ExitCodesAreInTheDocuments) {
  const std::string page =
      read_file(real_files(), EVERMOE_SOURCE_DIR "/docs/cluster.md", 1 << 20).value();
  for (const ExitCodeMeaning& one : kExitCodes)
    EXPECT_THAT(page, HasSubstr(std::string("| ") + one.code + " | " + one.meaning + " |"));
}

// The commands that `evermoe --help` lists.
std::vector<std::string> commands_of(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {
    if (line.size() > 2 && line.compare(0, 2, "  ") == 0 && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

TEST_F(CliTest, EveryCommandExplainsItself) {
  const std::vector<std::string> commands = commands_of(run({"--help"}).out);
  EXPECT_GE(commands.size(), 16u);
  for (const std::string& command : commands) {
    SCOPED_TRACE(command);
    const std::string help = run({command, "--help"}).out;
    EXPECT_THAT(help.substr(0, help.find("\n")), MatchesRegex("[A-Z].* .* .*")) << "what it is for";
    EXPECT_THAT(help, ContainsRegex("\nExamples?:\n  .*evermoe " + command));
    if (command == "run" || command == "node" || command == "controller") {
      for (const ExitCodeMeaning& one : kExitCodes) EXPECT_THAT(help, HasSubstr(one.meaning));
    } else {
      EXPECT_THAT(help, ContainsRegex("\nExit codes: 0 [a-z].*; 1 [a-z].*; 2 bad input[.]"));
    }
    // Options that are values say of what kind; the planner's commands name theirs in other words.
    if (command != "plan" && command != "forecast" && command != "place") {
      EXPECT_THAT(help, Not(ContainsRegex("(--[a-z-]+|  [A-Z]+) (TEXT|INT|UINT|FLOAT)\\b")));
    }
    // No example shows a flag that there is not.
    std::istringstream words(help.substr(help.find("\nExample")));
    std::string word;
    bool is_own = true;
    while (words >> word && word != "codes:") {
      if (word == "--" || word == "srun") is_own = false;
      if (word == "evermoe") is_own = true;
      if (!is_own || word.compare(0, 2, "--") != 0) continue;
      EXPECT_THAT(help.substr(0, help.find("\nExample")), HasSubstr(word));
    }
  }
}

TEST_F(CliTest, WrongArgumentsAreOneLine) {
  EXPECT_EQ(refusal({}), "evermoe: A subcommand is required (see evermoe --help)");
  EXPECT_EQ(refusal({"train"}), "evermoe: A subcommand is required (see evermoe --help)");
  EXPECT_EQ(refusal({"config", kTiny, "--shwo"}),
            "evermoe: The following argument was not expected: --shwo (see evermoe --help)");
  EXPECT_EQ(refusal({"inspect"}),
            "evermoe: inspect: found nothing to inspect, allowed: a CHECKPOINT or --config FILE");
  EXPECT_EQ(refusal({"config"}),
            "evermoe: config: found no CONFIG, allowed: a TOML file, or --keys");
}

TEST_F(CliTest, SimPrintsSchedulesInsteadOfRunningThem) {
  const std::vector<std::string> arguments = {"sim",     "--seeds", "3..5",       "--stages",   "2",
                                              "--lanes", "2",       "--playable", "--schedules"};
  const std::string text = printed(arguments);
  EXPECT_EQ(printed(arguments), text);
  std::istringstream lines(text);
  int64_t seed = 3;
  for (std::string line; std::getline(lines, line); ++seed) {
    const auto schedule = nlohmann::json::parse(line);
    EXPECT_EQ(schedule["seed"], seed);
    EXPECT_EQ(schedule["shape"]["lanes"], std::vector<int>({2, 2}));
    EXPECT_GE(schedule["shape"]["nodes"], 1);
    ASSERT_FALSE(schedule["faults"].empty());
    for (const auto& fault : schedule["faults"])
      EXPECT_NE(fault.contains("at_seconds"), fault.contains("point")) << fault;
  }
  EXPECT_EQ(seed, 6);
  EXPECT_EQ(refusal({"sim", "--seeds", "5..3", "--schedules"}),
            "evermoe: sim: --seeds is '5..3', not A..B with A <= B");
}

TEST_F(CliTest, ConfigShowsACompleteConfiguration) {
  const Result shown = run({"config", kTiny, "--show", "--set", "train.steps=7"});
  EXPECT_EQ(shown.code, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("\nsteps = 7\n"));
  EXPECT_THAT(shown.out, HasSubstr("/data/tinyshakespeare.txt\"\n"));
  const std::string again = folder_.write("again.toml", shown.out);
  EXPECT_EQ(run({"config", again, "--show"}).out, shown.out);
  EXPECT_EQ(run({"config", again}).out, again + ": valid\n");
}

TEST_F(CliTest, ConfigKeysIsTheDocumentation) {
  EXPECT_EQ(run({"config", "--keys"}).out,
            TestFolder::read(EVERMOE_SOURCE_DIR "/docs/configuration.md"));
}

TEST_F(CliTest, BadConfigurationsAreRefused) {
  const std::string file = folder_.write("job.toml", "[train]\nstesp = 3\n");
  EXPECT_EQ(refusal({"config", file}),
            "evermoe: D/job.toml:2:1: train.stesp: unknown key, did you mean train.steps?");
  EXPECT_EQ(refusal({"config", folder_.path("none.toml")}),
            "evermoe: D/none.toml: no such file, allowed: a TOML configuration");
  EXPECT_EQ(refusal({"config", folder_.root()}).substr(0, 10), "evermoe: D");
  EXPECT_EQ(refusal({"config", kTiny, "--set", "parallel.stages=9"}),
            "evermoe: --set parallel.stages=9: parallel.stages: found 9, allowed: at most "
            "model.layers (4), so that each stage has a layer");
  EXPECT_EQ(
      refusal({"inspect", "--config", kTiny, "--set", "model.hidden=x"}),
      "evermoe: --set model.hidden=x: model.hidden: found \"x\", allowed: multiple of 64 from "
      "64 to 1048576");
  EXPECT_EQ(
      refusal({"inspect", "--config", kTiny, "--set", "data.path=" + folder_.path("none")}),
      "evermoe: --set data.path=D/none: data.path: found \"D/none\" (no such file), allowed: an "
      "existing text file or token file (.tokens)");
}

TEST_F(CliTest, EveryShippedConfigurationIsValid) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EVERMOE_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    const Result result = run({"config", entry.path()});
    EXPECT_EQ(result.code, 0) << result.error;
    ++count;
  }
  EXPECT_GE(count, 5);
}

TEST_F(CliTest, InspectCountsAPublishedModel) {
  const std::vector<std::string> mixtral = {"inspect", "--config", kTiny, "--set",
                                            "model.preset=mixtral-8x7b"};
  EXPECT_THAT(run(mixtral).out, HasSubstr("parameters  46,702,792,704, of which a token uses "
                                          "12,879,925,248 (27.6 %), in experts 45,097,156,608\n"));
  std::vector<std::string> as_json = mixtral;
  as_json.push_back("--json");
  const auto json = nlohmann::json::parse(run(as_json).out);
  EXPECT_EQ(json["parameters"]["total"], 46702792704);
  EXPECT_EQ(json["operators"]["expert"]["count"], 32 * 8);
  EXPECT_EQ(json["stages"].size(), 2u);
  EXPECT_EQ(json["stages"][1]["end_layer"], 32);
}

TEST_F(CliTest, TokenizeWritesWhatConfigurationsAccept) {
  const std::string text = folder_.write("text.txt", std::string(2000, 'x'));
  const std::string out = folder_.path("text.tokens");
  const Result result = run({"tokenize", text, "--out", out});
  EXPECT_EQ(result.out, out + ": 2000 tokens, vocabulary of 256\n") << result.error;
  EXPECT_EQ(run({"config", kTiny, "--set", "data.path=" + out}).code, 0);
}

TEST_F(CliTest, TokenizeTrainsAVocabulary) {
  const std::string text = folder_.write(
      "text.txt",
      TestFolder::read(EVERMOE_SOURCE_DIR "/data/tinyshakespeare.txt").substr(0, 100'000));
  const std::string out = folder_.path("text.tokens");
  const std::string model = folder_.path("a.model");
  const Result result =
      run({"tokenize", text, "--out", out, "--train-vocabulary", "512", "--model", model});
  EXPECT_EQ(result.code, 0) << result.error;
  EXPECT_THAT(result.out, StartsWith(model + ": vocabulary of 512\n" + out + ": "));
  const std::string first = TestFolder::read(out);
  EXPECT_EQ(run({"tokenize", text, "--out", out, "--tokenizer", model}).code, 0);
  EXPECT_EQ(TestFolder::read(out), first);
  EXPECT_EQ(run({"config", kTiny, "--set", "data.path=" + text, "--set", "data.tokenizer=" + model,
                 "--set", "model.vocabulary=512"})
                .code,
            0);
}

TEST_F(CliTest, TokenizeNamesWrongInput) {
  const std::string text = folder_.write("text.txt", "some text");
  const std::string out = folder_.path("text.tokens");
  EXPECT_EQ(refusal({"tokenize", folder_.path("none"), "--out", out}),
            "evermoe: TEXT: found \"D/none\", allowed: an existing text file");
  EXPECT_EQ(refusal({"tokenize", text, "--out", folder_.path("x")}),
            "evermoe: --out: found \"D/x\", allowed: a name that ends with .tokens");
  EXPECT_EQ(refusal({"tokenize", text, "--out", out, "--train-vocabulary", "500"}),
            "evermoe: --train-vocabulary and --model: found one, allowed: both or neither");
  EXPECT_THAT(refusal({"tokenize", text, "--out", out, "--tokenizer", text}),
              StartsWith("evermoe: D/text.txt: not a SentencePiece model: "));
  EXPECT_THAT(refusal({"tokenize", text, "--out", out, "--train-vocabulary", "300", "--model",
                       folder_.path("a.model")}),
              StartsWith("evermoe: D/text.txt: no vocabulary of 300: "));
}

}  // namespace
}  // namespace evermoe
