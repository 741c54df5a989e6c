#include "recovery/member/restore/witnesses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WitnessesTest : public testing::Test {
 protected:
  WitnessesTest() {
    EXPECT_TRUE(remove_tree(real_files(), out_).ok());
    EXPECT_TRUE(real_files().create_directories(out_).ok());
  }
  ~WitnessesTest() override { (void)remove_tree(real_files(), out_); }
  std::string text_of(const std::string& file) {
    const std::string path = absl::StrCat(out_, "/contradiction/1.0-step-16/", file);
    const auto text = read_file(real_files(), path, 1 << 20);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  const std::string out_ =
      absl::StrCat(testing::TempDir(), "/witnesses-",
                   testing::UnitTest::GetInstance()->current_test_info()->name());
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST_F(WitnessesTest, BothFingerprintsAndTheBytesThatAreThereAreKept) {
  const std::string old_bytes = "old", new_bytes = "new";
  Witnesses witnesses;
  witnesses.add("operator a", {1, 2}, {3, 4}, {}, bytes_of(new_bytes));
  witnesses.add("activation", {5, 6}, {7, 8}, bytes_of(old_bytes), bytes_of(new_bytes));
  ASSERT_TRUE(witnesses.write(real_files(), out_, "1.0-step-16", "bits \"differ\"").ok());
  const auto json = nlohmann::json::parse(text_of("witness.json"));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["error"], "bits \"differ\"");
  ASSERT_EQ(json["differences"].size(), 2u);
  EXPECT_EQ(json["differences"][0]["what"], "operator a");
  EXPECT_EQ(json["differences"][0]["before"], to_hex({1, 2}));
  EXPECT_EQ(json["differences"][0]["now"], to_hex({3, 4}));
  EXPECT_TRUE(json["differences"][0]["bytes_before"].is_null());
  EXPECT_EQ(text_of(json["differences"][0]["bytes_now"]), "new");
  EXPECT_EQ(text_of(json["differences"][1]["bytes_before"]), "old");
}

TEST_F(WitnessesTest, AreFoundAgainWithTheirError) {
  EXPECT_EQ(find_contradiction(real_files(), out_), std::nullopt);
  ASSERT_TRUE(Witnesses().write(real_files(), out_, "1.0-step-16", "they differ").ok());
  EXPECT_THAT(find_contradiction(real_files(), out_).value_or(""),
              AllOf(HasSubstr("they differ"), HasSubstr("/contradiction/1.0-step-16")));
  ASSERT_TRUE(
      write_file_synced(real_files(), out_ + "/contradiction/1.0-step-16/witness.json", "{").ok());
  EXPECT_THAT(find_contradiction(real_files(), out_).value_or(""), HasSubstr("other bits"));
}

TEST_F(WitnessesTest, AreThoseOfAFolderThatIsWhole) {
  ASSERT_TRUE(real_files().create_directories(out_ + "/contradiction/1.0-step-16.tmp").ok());
  ASSERT_TRUE(write_file_synced(real_files(), out_ + "/contradiction/notes", "mine").ok());
  EXPECT_EQ(find_contradiction(real_files(), out_), std::nullopt);
  ASSERT_TRUE(Witnesses().write(real_files(), out_, "1.0-step-16", "the first").ok());
  ASSERT_TRUE(Witnesses().write(real_files(), out_, "1.0-step-16", "the second").ok());
  EXPECT_THAT(find_contradiction(real_files(), out_).value_or(""), HasSubstr("the first"));
}

TEST_F(WitnessesTest, GarbageIsAContradictionAllTheSame) {
  for (const std::string& text :
       {std::string(), std::string("[1]"), std::string(1 << 20, '['), std::string("\xff\0\x80", 3),
        std::string("{\"error\": 7}"), "{\"error\": \"" + std::string(1 << 20, 'x') + "\"}"}) {
    ASSERT_TRUE(real_files().create_directories(out_ + "/contradiction/1.0-step-16").ok());
    ASSERT_TRUE(
        write_file_synced(real_files(), out_ + "/contradiction/1.0-step-16/witness.json", text)
            .ok());
    const auto found = find_contradiction(real_files(), out_);
    ASSERT_TRUE(found) << text.substr(0, 20);
    EXPECT_LT(found->size(), 8u << 10);
  }
}

// Memory is what the job may have run short of.
TEST_F(WitnessesTest, OfTooManyBytesTheFingerprintsAreKept) {
  const std::vector<std::byte> many(static_cast<size_t>(Witnesses::kBytesMax / 2 + 1));
  Witnesses witnesses;
  EXPECT_TRUE(witnesses.has_room_for(std::ssize(many)));
  for (int i = 0; i < 2; ++i) witnesses.add("operator", {1, 2}, {3, 4}, {}, many);
  EXPECT_FALSE(witnesses.has_room_for(std::ssize(many)));
  ASSERT_TRUE(witnesses.write(real_files(), out_, "1.0-step-16", "").ok());
  const auto json = nlohmann::json::parse(text_of("witness.json"));
  EXPECT_FALSE(json["differences"][0]["bytes_now"].is_null());
  EXPECT_TRUE(json["differences"][1]["bytes_now"].is_null());
  EXPECT_EQ(json["differences"][1]["now"], to_hex({3, 4}));
}

}  // namespace
}  // namespace evermoe
