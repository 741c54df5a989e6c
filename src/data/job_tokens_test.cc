#include "data/job_tokens.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/folder_testing.h"
#include "data/token_file.h"
#include "data/token_record_fuzz_entry.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

class JobTokensTest : public testing::Test {
 protected:
  std::string cache() const { return folder_.path("cache"); }
  std::string record_path() const { return cache() + "/tokens.json"; }
  TokenRecord record() const { return parse_token_record(folder_.read(record_path())).value(); }

  void begin(const TokenSource& source) { ASSERT_TRUE(prepare_job_tokens(source, cache()).ok()); }

  // What a worker reads.
  absl::StatusOr<std::string> text_of(const TokenSource& source) const {
    const absl::StatusOr<TokenParts> parts = open_job_tokens(source, cache());
    if (!parts.ok()) return parts.status();
    std::string text;
    for (const TokenPart* part : {&parts->training, &parts->validation}) {
      std::vector<int64_t> tokens(static_cast<size_t>(part->size()));
      part->read(0, tokens);
      text.append(tokens.begin(), tokens.end());
    }
    return text;
  }

  // Overwrites the first byte in place, and gives the file the times that it had.
  static void change_secretly(const std::string& path, char byte, int64_t offset) {
    struct stat info;
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    const int fd = ::open(path.c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, &byte, 1, offset), 1);
    const timespec times[] = {info.st_atim, info.st_mtim};
    ASSERT_EQ(::futimens(fd, times), 0);
    ::close(fd);
  }

  TestFolder folder_;
};

// Its workers have begun with the old text: one that starts now must not take the new one for it.
TEST_F(JobTokensTest, AnotherHostOfTheJobDoesNotTakeATextThatHasChangedSince) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  folder_.write("a.txt", "4567");
  ASSERT_TRUE(keep_job_tokens(source, cache()).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(text_of(source).status())) << "it compares";
  begin(source);
  EXPECT_EQ(text_of(source).value(), "4567") << "a job that begins again does";
}

TEST_F(JobTokensTest, AnotherHostOfTheJobPreparesWhatTheFormerDidNot) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  ASSERT_TRUE(keep_job_tokens(source, cache()).ok());
  EXPECT_TRUE(real_files().exists(record_path()));
}

TEST_F(JobTokensTest, AWorkerDoesNotReadWhatIsWrittenDown) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  // Tokens that do not have their fingerprint, in a file that the record takes for the one
  // prepared.
  TokenRecord record = this->record();
  change_secretly(record[0].tokens.path, '9', kTokenFileHeaderBytes);
  record[0].tokens.identity = real_files().identity(record[0].tokens.path).value();
  folder_.write("cache/tokens.json", token_record_text(record));
  EXPECT_EQ(text_of(source).value(), "9123");
}

TEST_F(JobTokensTest, WhatAKilledWriterLeftIsRemovedWhenTheJobBeginsAgain) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  const size_t files = real_files().list(cache())->size();
  const pid_t writer = ::fork();
  if (writer == 0) {
    auto half = TokenFileWriter::create(cache() + "/half.tokens", 256);
    ::_exit(half.ok() ? 0 : 1);
  }
  ::waitpid(writer, nullptr, 0);
  EXPECT_EQ(real_files().list(cache())->size(), files + 1);
  begin(source);
  EXPECT_EQ(real_files().list(cache())->size(), files);
}

TEST_F(JobTokensTest, AChangedTextIsRefused) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  EXPECT_EQ(text_of(source).value(), "0123");
  change_secretly(source.path, '9', 0);
  const absl::Status refused = text_of(source).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(source.path + ": has changed since the job began"));
  EXPECT_FALSE(text_of(source).ok())
      << "the second worker must not take the first one's finding for the job's";
  change_secretly(source.path, '0', 0);
  EXPECT_EQ(text_of(source).value(), "0123");
}

TEST_F(JobTokensTest, AChangedTokenFileIsRefused) {
  const std::vector<int32_t> tokens = {5, 6, 7};
  const TokenSource source{folder_.path("a.tokens")};
  ASSERT_TRUE(write_token_file(source.path, 10, tokens).ok());
  begin(source);
  EXPECT_TRUE(text_of(source).ok());
  change_secretly(source.path, 8, kTokenFileHeaderBytes + 1);
  EXPECT_TRUE(absl::IsDataLoss(text_of(source).status()))
      << "it does not have its own fingerprint any more";
  const std::vector<int32_t> others = {5, 8, 7};
  ASSERT_TRUE(write_token_file(source.path, 10, others).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(text_of(source).status()));
}

TEST_F(JobTokensTest, AChangedValidationTextIsRefused) {
  const TokenSource source{folder_.write("a.txt", "0123"), "bytes", folder_.write("b.txt", "ab")};
  begin(source);
  EXPECT_EQ(text_of(source).value(), "0123ab");
  folder_.write("b.txt", "aB");
  EXPECT_THAT(std::string(text_of(source).status().message()), HasSubstr("b.txt: has changed"));
}

TEST_F(JobTokensTest, ATextThatWasOnlyTouchedIsReadOnceMore) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  const TokenRecord before = record();
  folder_.write("a.txt", "0123");
  EXPECT_EQ(text_of(source).value(), "0123");
  EXPECT_NE(record(), before) << "whoever comes next need not read it";
  EXPECT_EQ(record()[0].contents, before[0].contents);
}

TEST_F(JobTokensTest, WithoutARecordAWorkerPreparesTheTokens) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  EXPECT_EQ(text_of(source).value(), "0123");
  EXPECT_EQ(record()[0].source.path, source.path);
}

TEST_F(JobTokensTest, LostTokensAreMadeAgain) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  std::filesystem::remove(record()[0].tokens.path);
  EXPECT_EQ(text_of(source).value(), "0123");
}

TEST_F(JobTokensTest, TheNextRunMayHaveOtherData) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  folder_.write("a.txt", "4567");
  begin(source);
  EXPECT_EQ(text_of(source).value(), "4567");
  const TokenSource other{folder_.write("b.txt", "89")};
  begin(other);
  EXPECT_EQ(text_of(other).value(), "89");
}

TEST_F(JobTokensTest, NothingIsWrittenWhereNothingHasChanged) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  const FileIdentity written = real_files().identity(record_path()).value();
  begin(source);
  ASSERT_TRUE(text_of(source).ok());
  EXPECT_EQ(real_files().identity(record_path()).value(), written);
}

TEST_F(JobTokensTest, ADamagedRecordIsMadeAgain) {
  const TokenSource source{folder_.write("a.txt", "0123")};
  begin(source);
  const std::string good = folder_.read(record_path());
  folder_.write("cache/tokens.json", good.substr(0, good.size() / 2));
  EXPECT_EQ(text_of(source).value(), "0123");
  EXPECT_EQ(folder_.read(record_path()), good);
}

TEST_F(JobTokensTest, ErrorsAreThoseOfTheSource) {
  const std::string missing = folder_.path("none.txt");
  const absl::Status refused = prepare_job_tokens({missing}, cache());
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(missing));
}

class TokenRecordTest : public testing::Test {
 protected:
  static PreparedTokens some(const std::string& name) {
    return {.source = {name + ".txt", {1, 2, 3, 4}},
            .tokenizer = {"bytes", {}},
            .tokens = {name + ".tokens", {~uint64_t{0}, 6, 7, -8}},
            .contents = {9, 10}};
  }
};

TEST_F(TokenRecordTest, ComesBackFromItsText) {
  const TokenRecord record = {some("a"), some("b \"quoted\"\n")};
  EXPECT_EQ(parse_token_record(token_record_text(record)).value(), record);
}

TEST_F(TokenRecordTest, DamageIsFound) {
  const std::string good = token_record_text({some("a")});
  for (size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    const auto parsed = parse_token_record(damaged);
    // White space that became other white space does no harm.
    EXPECT_TRUE(!parsed.ok() || token_record_text(*parsed) == good) << i;
    fuzz_token_record(reinterpret_cast<const uint8_t*>(damaged.data()), damaged.size());
    // The last character is a newline.
    EXPECT_EQ(parse_token_record(good.substr(0, i)).ok(), i + 1 == good.size()) << i;
  }
}

TEST_F(TokenRecordTest, OtherVersionsAreNamed) {
  EXPECT_EQ(parse_token_record(R"({"version": 7})").status().message(),
            "format version 7, this build reads 1");
  EXPECT_EQ(parse_token_record("[]").status().message(), "not a record of prepared tokens");
}

}  // namespace
}  // namespace evermoe
