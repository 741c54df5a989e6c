#include "toml/toml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string error_of(const std::string& text) {
  return std::string(parse_toml(text, "file").status().message());
}

TEST(TomlText, WhatIsNoTomlIsNamedWithItsPlaceInOneLine) {
  EXPECT_EQ(parse_toml("a = 1\n", "file")->get("a")->value<int>(), 1);
  EXPECT_THAT(error_of("a = 1\nb = = 3\n"), StartsWith("file:2:5: not TOML: "));
  for (const char* const text : {"a = \"b\nc\"", "a\n=1", "\xff", "[a", "a = 1\na = 2"}) {
    EXPECT_THAT(error_of(text), StartsWith("file:")) << text;
    EXPECT_THAT(error_of(text), Not(HasSubstr("\n"))) << text;
  }
}

TEST(TomlText, AKeyThatNobodyKnowsIsNamedWithThoseThatAre) {
  const toml::table table = *parse_toml("a = 1\n\"c\\nd\" = 2\n", "file");
  EXPECT_TRUE(check_toml_keys(table, "file", "t.", {"a", "c\nd"}).ok());
  EXPECT_EQ(check_toml_keys(table, "file", "t.", {"a", "b"}).message(),
            "file:2: found t.c\\nd, allowed: a, b");
}

}  // namespace
}  // namespace evermoe
