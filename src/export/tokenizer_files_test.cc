// What is written of a tokenizer, and when nothing is. tests/export asks transformers for its
// tokens.
#include "export/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/folder_testing.h"
#include "data/sentencepiece_spec.h"
#include "data/tokenizer.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

ModelShape shape_of(int64_t vocabulary) {
  ModelShape shape;
  shape.vocabulary = vocabulary;
  return shape;
}

const std::string& file(const TokenizerFiles& files, const std::string& name) {
  for (const ExportFile& one : files.files) {
    if (one.name == name) return one.content;
  }
  ADD_FAILURE() << "no " << name;
  static const std::string none;
  return none;
}

class TokenizerFilesTest : public testing::Test {
 protected:
  // A model trained on a text of lines.
  std::string model() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i) + " says another thing\n";
    const std::string path = folder_.path("a.model");
    EXPECT_TRUE(train_sentencepiece(folder_.write("a.txt", text), 300, path).ok());
    return path;
  }
  TestFolder folder_;
};

TEST_F(TokenizerFilesTest, BytesAreABytePairTokenizerWithoutPairs) {
  const TokenizerFiles files = tokenizer_files("bytes", shape_of(256)).value();
  const Json json = Json::parse(file(files, "tokenizer.json"));
  EXPECT_EQ(json["model"]["vocab"].size(), 256u);
  EXPECT_EQ(json["model"]["vocab"]["a"], 97);
  EXPECT_EQ(json["model"]["vocab"]["\u0120"], 32);
  EXPECT_TRUE(json["model"]["merges"].empty());
}

TEST_F(TokenizerFilesTest, AModelKeepsItsTokens) {
  const std::string path = model();
  const TokenizerFiles files = tokenizer_files(path, shape_of(320)).value();
  EXPECT_EQ(files.why_none, "");
  EXPECT_EQ(file(files, "tokenizer.model"), folder_.read(path));
  const SentencePieceSpec spec = parse_sentencepiece_spec(folder_.read(path)).value();
  const Json vocabulary = Json::parse(file(files, "tokenizer.json"))["model"]["vocab"];
  ASSERT_EQ(vocabulary.size(), spec.pieces.size());
  ASSERT_EQ(spec.pieces.size(), 300u);
  for (size_t i = 0; i < spec.pieces.size(); ++i) EXPECT_EQ(vocabulary[i][0], spec.pieces[i].text);
  EXPECT_EQ(Json::parse(file(files, "tokenizer_config.json"))["tokenizer_class"],
            "PreTrainedTokenizerFast");
}

TEST_F(TokenizerFilesTest, OtherTokenizersThanTheJobsAreRefused) {
  const absl::Status larger = tokenizer_files(model(), shape_of(256)).status();
  EXPECT_EQ(exit_code(larger), 2);
  EXPECT_THAT(std::string(larger.message()),
              HasSubstr("found 300 tokens, allowed: at most the model's vocabulary (256)"));
  const absl::Status missing = tokenizer_files(folder_.path("none.model"), shape_of(256)).status();
  EXPECT_EQ(exit_code(missing), 2);
  EXPECT_THAT(std::string(missing.message()),
              StartsWith(folder_.path("none.model") + ": no such file"));
}

TEST_F(TokenizerFilesTest, WhatTheFormCannotExpressHasNoFiles) {
  std::string bytes = folder_.read(model());
  // Protobuf messages add up: a second trainer_spec with model_type = 2 makes it a BPE model.
  bytes += std::string("\x12\x02\x18\x02", 4);
  const TokenizerFiles files =
      tokenizer_files(folder_.write("bpe.model", bytes), shape_of(320)).value();
  EXPECT_TRUE(files.files.empty());
  EXPECT_EQ(files.why_none, folder_.path("bpe.model") + ": it is not a unigram model");
}

TEST_F(TokenizerFilesTest, DamagedModelsAreRefused) {
  const std::string good = folder_.read(model());
  EXPECT_TRUE(absl::IsDataLoss(parse_sentencepiece_spec("").status()));
  // Whatever is read of the beginning of a model, it is not read beyond it.
  for (size_t size = 0; size < good.size(); size += 7)
    (void)parse_sentencepiece_spec(good.substr(0, size));
  EXPECT_TRUE(absl::IsDataLoss(parse_sentencepiece_spec(good.substr(0, good.size() - 1)).status()));
}

}  // namespace
}  // namespace evermoe
