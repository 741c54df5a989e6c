#include "data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/folder_testing.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kText[] = EVERMOE_SOURCE_DIR "/data/tinyshakespeare.txt";

// The text's first part, small enough to train on in a second.
std::string sample_text() { return TestFolder::read(kText).substr(0, 200'000); }

TEST(ByteTokenizerTest, EveryByteIsItsOwnToken) {
  const auto tokenizer = Tokenizer::open("bytes").value();
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_THAT(*tokenizer->encode("aB\n\xff"), ElementsAre(97, 66, 10, 255));
  const std::vector<int32_t> tokens = {97, 66, 10, 255};
  EXPECT_EQ(*tokenizer->decode(tokens), "aB\n\xff");
  const std::vector<int32_t> wrong = {256};
  EXPECT_EQ(tokenizer->decode(wrong).status().message(), "token 256, allowed: 0 to 255");
}

class SentencePieceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TestFolder>();
    const std::string text = folder_->write("text.txt", sample_text());
    const absl::Status trained = train_sentencepiece(text, 512, folder_->path("a.model"));
    ASSERT_TRUE(trained.ok()) << trained;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::unique_ptr<TestFolder> folder_;
};
std::unique_ptr<TestFolder> SentencePieceTest::folder_;

TEST_F(SentencePieceTest, DecodingGivesTheTextBack) {
  const auto tokenizer = Tokenizer::open(folder_->path("a.model")).value();
  EXPECT_EQ(tokenizer->vocabulary(), 512);
  for (const std::string& text :
       {sample_text(), std::string(), std::string("\n"), std::string("a\n\n\nb"),
        std::string("  two spaces  inside and outside  \n"), std::string("\ttab\r\n"),
        std::string("caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80\n")}) {
    const std::vector<int32_t> tokens = tokenizer->encode(text).value();
    EXPECT_EQ(tokenizer->decode(tokens).value(), text);
  }
}

TEST_F(SentencePieceTest, ShortensText) {
  const auto tokenizer = Tokenizer::open(folder_->path("a.model")).value();
  const std::string text = sample_text();
  EXPECT_LT(tokenizer->encode(text)->size(), text.size() * 6 / 10);
}

TEST_F(SentencePieceTest, PiecesThatEndWithANewlineGiveTheTokensOfTheWhole) {
  const auto tokenizer = Tokenizer::open(folder_->path("a.model")).value();
  const std::string text = "First Citizen:\nBefore we proceed\n\nany further, hear";
  std::vector<int32_t> pieces;
  for (const char* piece : {"First Citizen:\n", "Before we proceed\n\n", "any further, hear"}) {
    const std::vector<int32_t> tokens = tokenizer->encode(piece).value();
    pieces.insert(pieces.end(), tokens.begin(), tokens.end());
  }
  EXPECT_EQ(pieces, *tokenizer->encode(text));
}

TEST_F(SentencePieceTest, TrainingTwiceGivesTheSameModel) {
  const std::string again = folder_->path("again.model");
  ASSERT_TRUE(train_sentencepiece(folder_->path("text.txt"), 512, again).ok());
  EXPECT_EQ(folder_->read(again), folder_->read(folder_->path("a.model")));
  EXPECT_EQ(Tokenizer::open(again).value()->identity(),
            Tokenizer::open(folder_->path("a.model")).value()->identity());
}

TEST_F(SentencePieceTest, WrongInputIsNamed) {
  const std::string text = folder_->path("text.txt");
  EXPECT_THAT(std::string(train_sentencepiece(text, 100, folder_->path("x.model")).message()),
              HasSubstr(text + ": no vocabulary of 100: "));
  EXPECT_THAT(std::string(train_sentencepiece(text, 1'000'000, folder_->path("x.model")).message()),
              HasSubstr("<="));
  EXPECT_EQ(train_sentencepiece(folder_->path("none"), 512, folder_->path("x.model")).message(),
            folder_->path("none") + ": cannot be read, allowed: a text file");
  EXPECT_TRUE(absl::IsNotFound(Tokenizer::open(folder_->path("none.model")).status()));
  const std::string no_model = folder_->write("text.model", "not a model");
  EXPECT_THAT(std::string(Tokenizer::open(no_model).status().message()),
              HasSubstr(no_model + ": not a SentencePiece model: "));
}

}  // namespace
}  // namespace evermoe
