#include "data/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/folder_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;

class TokenSourceTest : public testing::Test {
 protected:
  TokenPaths prepare(const TokenSource& source) {
    const absl::StatusOr<TokenPaths> paths = prepare_tokens(source, cache());
    EXPECT_TRUE(paths.ok()) << paths.status();
    return paths.ok() ? *paths : TokenPaths{};
  }
  std::string error_of(const TokenSource& source) {
    return std::string(prepare_tokens(source, cache()).status().message());
  }
  std::string cache() const { return folder_.path("cache"); }
  static std::vector<int64_t> tokens_of(const TokenPart& part) {
    std::vector<int64_t> tokens(static_cast<size_t>(part.size()));
    part.read(0, tokens);
    return tokens;
  }

  TestFolder folder_;
};

TEST_F(TokenSourceTest, TheLastPartIsHeldOut) {
  const std::string text = folder_.write("a.txt", "0123456789");
  const TokenParts parts = open_token_parts(prepare({text, "bytes", "", 0.3})).value();
  EXPECT_THAT(tokens_of(parts.training), ElementsAre(48, 49, 50, 51, 52, 53, 54));
  EXPECT_THAT(tokens_of(parts.validation), ElementsAre(55, 56, 57));
}

TEST_F(TokenSourceTest, ASeparateFileLeavesTheWholeForTraining) {
  const std::string text = folder_.write("a.txt", "0123");
  const std::string other = folder_.write("b.txt", "ab");
  const TokenParts parts = open_token_parts(prepare({text, "bytes", other, 0.5})).value();
  EXPECT_EQ(parts.training.size(), 4);
  EXPECT_THAT(tokens_of(parts.validation), ElementsAre(97, 98));
}

TEST_F(TokenSourceTest, FractionZeroMeansNoValidation) {
  const std::string text = folder_.write("a.txt", "0123");
  const TokenParts parts = open_token_parts(prepare({text, "bytes", "", 0})).value();
  EXPECT_EQ(parts.training.size(), 4);
  EXPECT_EQ(parts.validation.size(), 0);
}

TEST_F(TokenSourceTest, TokenFilesAreTakenAsTheyAre) {
  const std::string path = folder_.path("a.tokens");
  const std::vector<int32_t> tokens = {5, 6, 7};
  ASSERT_TRUE(write_token_file(path, 10, tokens).ok());
  EXPECT_EQ(prepare({path}).training, path);
  EXPECT_FALSE(std::filesystem::exists(cache()));
}

TEST_F(TokenSourceTest, TheCacheIsKeyedByContentAndTokenizer) {
  const std::string text = folder_.write("a.txt", "0123");
  const std::string first = prepare({text}).training;
  const auto written = std::filesystem::last_write_time(first);
  EXPECT_EQ(prepare({text}).training, first);
  EXPECT_EQ(std::filesystem::last_write_time(first), written);
  folder_.write("a.txt", "0124");
  EXPECT_NE(prepare({text}).training, first);
}

TEST_F(TokenSourceTest, DamagedCacheFilesAreMadeAgain) {
  const std::string text = folder_.write("a.txt", "0123");
  const std::string cached = prepare({text}).training;
  const std::string good = folder_.read(cached);
  for (const std::string& damaged : {good.substr(0, 10), good.substr(0, 65) + "xyz"}) {
    folder_.write("cache/" + std::filesystem::path(cached).filename().string(), damaged);
    EXPECT_EQ(prepare({text}).training, cached);
    EXPECT_EQ(folder_.read(cached), good);
  }
}

TEST_F(TokenSourceTest, LongTextsAreReadInPieces) {
  std::string content;
  for (int line = 0; content.size() < 3'000'000; ++line) content += std::to_string(line) + "\n";
  content += std::string(2'500'000, 'x');  // a line longer than a piece
  const std::string text = folder_.write("a.txt", content);
  const TokenParts parts = open_token_parts(prepare({text, "bytes", "", 0})).value();
  const std::vector<int64_t> tokens = tokens_of(parts.training);
  EXPECT_EQ(std::string(tokens.begin(), tokens.end()), content);
}

TEST_F(TokenSourceTest, ProcessesPrepareTheSameTextAtOnce) {
  const std::string text = folder_.write("a.txt", std::string(3'000'000, 'x'));
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(prepare_tokens({text}, cache()).ok() ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_EQ(state, 0);
  }
  const TokenParts parts = open_token_parts(prepare({text})).value();
  EXPECT_EQ(parts.training.size() + parts.validation.size(), 3'000'000);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache()), {}), 1);
}

TEST_F(TokenSourceTest, FactsComeWithoutReading) {
  const std::string text = folder_.write("a.txt", "0123");
  EXPECT_EQ(source_facts(text, "bytes")->tokens_max, 4);
  EXPECT_EQ(source_facts(text, "bytes")->vocabulary, 256);
  const std::string path = folder_.path("a.tokens");
  const std::vector<int32_t> tokens = {5, 6, 7};
  ASSERT_TRUE(write_token_file(path, 10, tokens).ok());
  EXPECT_EQ(source_facts(path, "ignored.model")->tokens_max, 3);
  EXPECT_EQ(source_facts(path, "ignored.model")->vocabulary, 10);
}

TEST_F(TokenSourceTest, WrongSourcesAreNamed) {
  const TokenSource missing{folder_.path("none.txt")};
  EXPECT_TRUE(absl::IsInvalidArgument(prepare_tokens(missing, cache()).status()));
  EXPECT_THAT(error_of(missing), testing::HasSubstr(folder_.path("none.txt")));
  EXPECT_EQ(error_of({folder_.root()}), folder_.root() + ": is a folder");
  const std::string damaged = folder_.write("a.tokens", "EVERTOK1");
  EXPECT_EQ(error_of({damaged}), damaged + ": has 8 bytes, a header has 64");
}

}  // namespace
}  // namespace evermoe
