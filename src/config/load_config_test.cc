// Configurations in files, with the data that they name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/job_config.h"
#include "data/folder_testing.h"
#include "data/token_file.h"

namespace evermoe {
namespace {

class LoadConfigTest : public testing::Test {
 protected:
  std::string error_of(const std::string& text, const std::vector<std::string>& settings = {}) {
    const std::string path = folder_.write("job.toml", text);
    const absl::Status status = load_config(path, settings).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return without_folder(std::string(status.message()));
  }
  // Messages with "D" for the folder.
  std::string without_folder(std::string text) {
    for (size_t at; (at = text.find(folder_.root())) != std::string::npos;) {
      text.replace(at, folder_.root().size(), "D");
    }
    return text;
  }

  TestFolder folder_;
};

TEST_F(LoadConfigTest, DataIsFoundBesideTheFile) {
  folder_.write("text.txt", std::string(1000, 'x'));
  const std::string path = folder_.write("job.toml", "data.path = \"text.txt\"");
  const absl::StatusOr<JobConfig> config = load_config(path, {});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.path, folder_.path("text.txt"));
}

TEST_F(LoadConfigTest, MissingFilesAreNamed) {
  EXPECT_EQ(load_config("/none.toml", {}).status().message(),
            "/none.toml: no such file, allowed: a TOML configuration");
  EXPECT_EQ(error_of(""),
            "D/job.toml: data.path: found \"\", allowed: an existing text file or "
            "token file (.tokens)");
  EXPECT_EQ(error_of("[data]\npath = \"none.txt\""),
            "D/job.toml:2:1: data.path: found \"D/none.txt\" (no such file), allowed: an existing "
            "text file or token file (.tokens)");
  folder_.write("text.txt", std::string(1000, 'x'));
  EXPECT_EQ(error_of("[data]\npath = \"text.txt\"\nvalidation_path = \"b.txt\""),
            "D/job.toml:3:1: data.validation_path: found \"D/b.txt\" (no such file), allowed: an "
            "existing text file or token file (.tokens)");
  EXPECT_EQ(
      error_of("[data]\npath = \"text.txt\"\ntokenizer = \"b.model\""),
      "D/job.toml:3:1: data.tokenizer: found \"D/b.model\" (no such file), allowed: bytes, or "
      "an existing SentencePiece .model file");
}

TEST_F(LoadConfigTest, DataMustBeLongEnough) {
  folder_.write("text.txt", std::string(700, 'x'));
  const std::string text = "[data]\npath = \"text.txt\"\n";
  EXPECT_EQ(error_of(text, {"data.validation_fraction=0.08"}),
            "--set data.validation_fraction=0.08: data.validation_fraction: found 56 tokens, "
            "allowed: at least model.sequence_length + 1 (65)");
  EXPECT_EQ(
      error_of(text, {"model.sequence_length=700"}),
      "D/job.toml:2:1: data.path: found 630 tokens, allowed: at least model.sequence_length + "
      "1 (701)");
}

TEST_F(LoadConfigTest, DataMustFitTheVocabulary) {
  folder_.write("text.txt", std::string(1000, 'x'));
  EXPECT_EQ(error_of("[data]\npath = \"text.txt\"\n[model]\nvocabulary = 128"),
            "D/job.toml:4:1: model.vocabulary: found 128, allowed: at least the vocabulary of "
            "\"D/text.txt\" (256)");
  const std::vector<int32_t> tokens(1000, 5);
  ASSERT_TRUE(write_token_file(folder_.path("a.tokens"), 5000, tokens).ok());
  EXPECT_EQ(error_of("[data]\npath = \"a.tokens\""),
            "D/job.toml: model.vocabulary: found 256, allowed: at least the vocabulary of "
            "\"D/a.tokens\" (5000)");
}

TEST_F(LoadConfigTest, DamagedDataIsRefused) {
  folder_.write("a.tokens", "EVERTOK1 and so on");
  EXPECT_EQ(error_of("[data]\npath = \"a.tokens\""),
            "D/job.toml:2:1: data.path: D/a.tokens: has 18 bytes, a header has 64, allowed: an "
            "existing text file or token file (.tokens)");
  EXPECT_EQ(error_of("[data]\npath = \".\""),
            "D/job.toml:2:1: data.path: D/: is a folder, allowed: an existing text file or token "
            "file (.tokens)");
}

}  // namespace
}  // namespace evermoe
