// verify in the real binary: every damage of a checkpoint is named; other commands meet it, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "cli/checkpoint_commands_testing.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Result = BinaryResult;

class VerifyCommandTest : public CheckpointCommandsTest {};

TEST_F(VerifyCommandTest, VerifyIsOk) {
  const std::string out = save("job", 60, 2);
  const Result result = run({"verify", out});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              ContainsRegex("^ok: D/job/checkpoints/step-00000060, 2 files, [0-9,]+ bytes read in "
                            "[0-9.]+ s\n$"));
  EXPECT_EQ(result.error, "");
}

TEST_F(VerifyCommandTest, VerifyNamesEveryDamagedShard) {
  const std::string out = save("job", 60, 2);
  const std::string folder = out + "/checkpoints/step-00000060/";
  flip(folder + "rank-0000.safetensors");
  flip(folder + "rank-0001.safetensors");
  const Result result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  ASSERT_EQ(lines.size(), 4u) << result.out;
  EXPECT_EQ(lines[2], "damaged: D/job/checkpoints/step-00000060, 2 problems");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(lines[i], AllOf(StartsWith("D/job/checkpoints/step-00000060/rank-000"),
                                HasSubstr("the fingerprint does not match the bytes")));
  }
}

TEST_F(VerifyCommandTest, VerifyNamesEveryMissingAndCutFile) {
  const std::string out = save("job", 60, 3);
  const std::string folder = out + "/checkpoints/step-00000060/";
  std::filesystem::remove(folder + "rank-0000.safetensors");
  const auto size = std::filesystem::file_size(folder + "rank-0002.safetensors");
  std::filesystem::resize_file(folder + "rank-0002.safetensors", size - 1);
  const Result result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  ASSERT_EQ(lines.size(), 4u) << result.out;
  EXPECT_THAT(lines[0], HasSubstr("D/job/checkpoints/step-00000060/rank-0000.safetensors"));
  EXPECT_EQ(lines[1], absl::StrCat("D/job/checkpoints/step-00000060/rank-0002.safetensors: has ",
                                   size - 1, " bytes, the manifest says ", size));
}

TEST_F(VerifyCommandTest, VerifyNamesTheManifest) {
  const std::string out = save("job", 60, 1);
  flip(out + "/checkpoints/step-00000060/manifest.json");
  const Result result = run({"verify", out});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, StartsWith("D/job/checkpoints/step-00000060/manifest.json: "));
  std::filesystem::remove(out + "/checkpoints/step-00000060/manifest.json");
  EXPECT_EQ(run({"verify", out}).code, 1);
}

TEST_F(VerifyCommandTest, DamageIsNotBadInput) {
  const std::string good = save("good", 60, 2);
  const std::string out = save("job", 60, 2);
  const std::string hf = folder_.at("hf");
  const std::string file = out + "/checkpoints/step-00000060/rank-0001.safetensors";
  const auto manifest = nlohmann::json::parse(text(out + "/checkpoints/latest/manifest.json"));
  flip(file,
       manifest["files"][1]["header_bytes"]);  // a master weight: export does not look at moments
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"digest", out},
                                             {"diff", good, out},
                                             {"export", out, "--out", hf, "--tokenizer", "none"}}) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 1) << command[0];
    EXPECT_EQ(result.out, "") << command[0];
    EXPECT_THAT(
        result.error,
        AllOf(StartsWith("evermoe: D/job/checkpoints/step-00000060/rank-0001.safetensors: "),
              HasSubstr("fingerprint")));
  }
  EXPECT_FALSE(real_files().exists(hf));
  EXPECT_FALSE(real_files().exists(hf + ".exporting"));
  std::filesystem::remove(file);
  for (const char* command : {"inspect", "digest"}) {
    const Result result = run({command, out});
    EXPECT_EQ(result.code, 1) << command;
    EXPECT_THAT(result.error, HasSubstr("rank-0001.safetensors")) << command;
  }
}

}  // namespace
}  // namespace evermoe
