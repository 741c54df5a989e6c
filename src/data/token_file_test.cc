#include "data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "data/folder_testing.h"
#include "data/token_file_fuzz_entry.h"

namespace evermoe {
namespace {

class TokenFileTest : public testing::Test {
 protected:
  std::string write(int64_t vocabulary, const std::vector<int32_t>& tokens) {
    const std::string path = folder_.path("a.tokens");
    const absl::Status written = write_token_file(path, vocabulary, tokens);
    EXPECT_TRUE(written.ok()) << written;
    return path;
  }
  // The error of opening these bytes, without the path.
  std::string error_of(const std::string& bytes) {
    const std::string path = folder_.write("damaged.tokens", bytes);
    const auto file = TokenFile::open(path);
    EXPECT_TRUE(absl::IsDataLoss(file.status())) << file.status();
    return std::string(file.status().message()).substr(path.size());
  }
  static std::vector<int64_t> tokens_of(const TokenFile& file, int64_t begin, int64_t count) {
    std::vector<int64_t> tokens(static_cast<size_t>(count));
    file.read(begin, tokens);
    return tokens;
  }

  TestFolder folder_;
};

TEST_F(TokenFileTest, ReadsBackWhatWasWrittenInEveryWidth) {
  for (const int64_t vocabulary : {2, 256, 257, 65536, 65537, 1 << 30}) {
    const auto top = static_cast<int32_t>(vocabulary - 1);
    const std::string path = write(vocabulary, {0, top, 1, top});
    const auto file = TokenFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->size(), 4);
    EXPECT_EQ((*file)->vocabulary(), vocabulary);
    EXPECT_TRUE((*file)->verify().ok());
    EXPECT_THAT(tokens_of(**file, 0, 4), testing::ElementsAre(0, top, 1, top));
    EXPECT_THAT(tokens_of(**file, 2, 2), testing::ElementsAre(1, top));
    EXPECT_THAT(tokens_of(**file, 4, 0), testing::IsEmpty());
    const int width = vocabulary <= 256 ? 1 : vocabulary <= 65536 ? 2 : 4;
    EXPECT_EQ(std::filesystem::file_size(path), 64 + 4 * width);
  }
}

TEST_F(TokenFileTest, EmptyFilesAreFiles) {
  const auto file = TokenFile::open(write(256, {}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->size(), 0);
  EXPECT_TRUE((*file)->verify().ok());
}

TEST_F(TokenFileTest, HeaderIsAsDocumented) {
  const std::string bytes = folder_.read(write(256, {1, 2, 3}));
  EXPECT_EQ(bytes.substr(0, 8), "EVERTOK1");
  EXPECT_EQ(bytes.substr(8, 16), std::string("\1\0\0\0\0\1\0\0\3\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(40), std::string(24, '\0') + "\1\2\3");
}

TEST_F(TokenFileTest, PiecesGiveTheSameFileAsTheWhole) {
  const std::string whole = folder_.read(write(300, {1, 2, 299, 4}));
  const std::string path = folder_.path("pieces.tokens");
  auto writer = TokenFileWriter::create(path, 300).value();
  for (const std::vector<int32_t>& piece : {std::vector<int32_t>{1}, {2, 299}, {}, {4}}) {
    ASSERT_TRUE(writer->append(piece).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(folder_.read(path), whole);
}

TEST_F(TokenFileTest, AbandonedWritersLeaveNothing) {
  { auto writer = TokenFileWriter::create(folder_.path("gone.tokens"), 300).value(); }
  EXPECT_THAT(folder_.names(), testing::IsEmpty());
}

TEST_F(TokenFileTest, TokensOutsideTheVocabularyAreRefused) {
  const std::vector<int32_t> tokens = {5, 10};
  const std::string path = folder_.path("a.tokens");
  EXPECT_EQ(write_token_file(path, 10, tokens).message(), path + ": token 10, allowed: 0 to 9");
  EXPECT_EQ(write_token_file(path, 0, tokens).message(),
            path + ": vocabulary 0, allowed: 1 to 2147483648");
}

TEST_F(TokenFileTest, MissingFilesAreNotFound) {
  EXPECT_TRUE(absl::IsNotFound(TokenFile::open(folder_.path("none")).status()));
}

TEST_F(TokenFileTest, DamagedHeadersSayWhatIsWrong) {
  const std::string good = folder_.read(write(256, {1, 2, 3}));
  const auto with = [&](size_t offset, char value) {
    std::string bytes = good;
    bytes[offset] = value;
    return bytes;
  };
  EXPECT_EQ(error_of(""), ": has 0 bytes, a header has 64");
  EXPECT_EQ(error_of(good.substr(0, 63)), ": has 63 bytes, a header has 64");
  EXPECT_EQ(error_of(good.substr(0, 66)), ": has 66 bytes, its header promises 67");
  EXPECT_EQ(error_of(good + "x"), ": has 68 bytes, its header promises 67");
  EXPECT_EQ(error_of(with(0, 'e')), ": not a token file");
  EXPECT_EQ(error_of(with(7, '2')), ": format version byte 50, this build reads 49 ('1')");
  EXPECT_EQ(error_of(with(8, 3)), ": 3 bytes per token, allowed: 1, 2, 4");
  EXPECT_EQ(error_of(with(13, 2)), ": vocabulary 512, allowed: 1 to 256 with 1 bytes per token");
  EXPECT_EQ(error_of(with(13, 0)), ": vocabulary 0, allowed: 1 to 256 with 1 bytes per token");
  EXPECT_EQ(error_of(with(23, 1)), ": 72057594037927939 tokens, allowed: at most 1099511627776");
  EXPECT_EQ(error_of(with(50, 1)), ": padding of the header is not zero");
}

TEST_F(TokenFileTest, VerifyFindsDamagedTokens) {
  std::string bytes = folder_.read(write(256, {1, 2, 3}));
  bytes[65] ^= 1;
  const std::string path = folder_.write("damaged.tokens", bytes);
  EXPECT_EQ(TokenFile::open(path).value()->verify().message(),
            path + ": tokens do not have the fingerprint in the header");
}

TEST_F(TokenFileTest, VerifyFindsTokensOutsideTheVocabulary) {
  std::string bytes = folder_.read(write(256, {1, 2, 3}));
  bytes[12] = 3;
  bytes[13] = 0;
  const std::string path = folder_.write("damaged.tokens", bytes);
  EXPECT_EQ(TokenFile::open(path).value()->verify().message(),
            path + ": token 2 is 3, the vocabulary has 3");
}

TEST_F(TokenFileTest, MutatedFilesNeverBreakAPromise) {
  const std::string good = folder_.read(write(256, {1, 2, 3, 4, 5}));
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = good.substr(0, random() % 4 == 0 ? random() % good.size() : good.size());
    for (uint64_t flips = random() % 4; flips > 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    fuzz_token_file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace evermoe
