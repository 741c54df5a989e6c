#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "config/config_key.h"

namespace evermoe {
namespace {

TEST(ConfigKeysTest, NamesAreUniqueAndGroupedByTable) {
  std::set<std::string> names;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_EQ(std::count(key.name.begin(), key.name.end(), '.'), 1) << key.name;
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_FALSE(key.allowed.empty()) << key.name;
  }
  EXPECT_THAT(config_tables(), testing::ElementsAre("model", "train", "data", "parallel", "experts",
                                                    "protection", "elastic", "stragglers",
                                                    "checkpoint", "evaluate", "run", "control"));
}

TEST(ConfigKeysTest, NearestKeyForgivesTyposAndWrongTables) {
  EXPECT_EQ(nearest_config_key("train.stesp"), "train.steps");
  EXPECT_EQ(nearest_config_key("train.layers"), "model.layers");
  EXPECT_EQ(nearest_config_key("layers"), "model.layers");
  EXPECT_EQ(nearest_config_key("model.topk"), "model.top_k");
  EXPECT_EQ(nearest_config_key("data.frobnicate"), "");
  EXPECT_EQ(nearest_config_key(std::string(100'000, 'x')), "");
}

// `evermoe config --keys > docs/configuration.md` brings it up to date.
TEST(ConfigKeysTest, TheDocumentationIsTheTable) {
  std::ifstream file(EVERMOE_SOURCE_DIR "/docs/configuration.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, config_keys_as_markdown());
}

TEST(ConfigKeysTest, QuotedTextIsOneLine) {
  EXPECT_EQ(quoted("a\"b\\c\nd\x7f"), "\"a\\\"b\\\\c\\u000Ad\\u007F\"");
}

}  // namespace
}  // namespace evermoe
