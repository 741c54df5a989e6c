// The decoders, casts, names and retention rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "checkpoint/format/casts.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/format/fuzz_entries.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/write/retention.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A header around this JSON, for a file with `data` bytes of tensors.
std::string parse_error(const std::string& json, int64_t data) {
  std::string text(8, '\0');
  text[0] = static_cast<char>(json.size());
  text[1] = static_cast<char>(json.size() >> 8);
  text += json;
  const auto parsed =
      parse_safetensors_header(bytes_of(text), static_cast<int64_t>(text.size()) + data, "x");
  EXPECT_TRUE(parsed.ok() || absl::IsDataLoss(parsed.status())) << parsed.status();
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(SafetensorsTest, RoundTripsAndAligns) {
  std::vector<SafetensorsTensor> tensors = {
      {"b", "F32", {3}, 0, 0}, {"a", "BF16", {2, 5}, 0, 0}, {"empty", "U8", {0, 7}, 0, 0}};
  const std::string header =
      make_safetensors_header(tensors, {{"k", "\xc3\xa4\"\n"}}, 4096).value();
  EXPECT_EQ(header.size() % 4096, 0u);
  const auto parsed =
      parse_safetensors_header(bytes_of(header), static_cast<int64_t>(header.size()) + 32, "x")
          .value();
  EXPECT_EQ(parsed.header_bytes, static_cast<int64_t>(header.size()));
  EXPECT_EQ(parsed.metadata.at("k"), "\xc3\xa4\"\n");
  EXPECT_EQ(parsed.tensors, tensors);
}

TEST(SafetensorsTest, RefusesWhatDoesNotFit) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(parse_error(good, 8), "");
  EXPECT_THAT(parse_error(good, 7), HasSubstr("lies outside the file"));
  EXPECT_THAT(parse_error(good, 9), HasSubstr("has 9 bytes of data, its tensors have 8"));
  const auto with = [&](const char* from, const char* to) {
    return parse_error(absl::StrReplaceAll(good, {{from, to}}), 8);
  };
  EXPECT_THAT(with("F32", "F33"), HasSubstr("unknown type"));
  EXPECT_THAT(with("[2]", "[3]"), HasSubstr("does not follow"));
  EXPECT_THAT(with("[2]", "[4611686018427387904,4]"), HasSubstr("does not follow"));
  EXPECT_THAT(with("[2]", "[-2]"), HasSubstr("natural numbers"));
  EXPECT_THAT(with("[0,8]", "[8,0]"), HasSubstr("lies outside"));
  EXPECT_THAT(with("[0,8]", "[0,8,9]"), HasSubstr("pair of data offsets"));
  EXPECT_THAT(with("[0,8]", "[18446744073709551608,18446744073709551615]"),
              HasSubstr("pair of data offsets"));
  EXPECT_THAT(with("\"a\"", "1"), HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_error("[]", 0), HasSubstr("not an object"));
  EXPECT_THAT(parse_error("[[[[[[[[[[[[", 0), HasSubstr("nested deeper"));
  EXPECT_THAT(parse_error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                              "b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                          3),
              HasSubstr("begins at 1"));
  EXPECT_THAT(parse_error(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},
                              "a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                          0),
              HasSubstr("twice"));
  EXPECT_THAT(parse_error(R"({"__metadata__":{"a":1}})", 0), HasSubstr("not a text"));
}

TEST(SafetensorsTest, RefusesAbsurdLengths) {
  const std::string huge = std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
  EXPECT_TRUE(absl::IsDataLoss(parse_safetensors_header(bytes_of(huge), 10, "x").status()));
  EXPECT_TRUE(absl::IsDataLoss(parse_safetensors_header({}, 0, "x").status()));
  EXPECT_TRUE(absl::IsDataLoss(parse_safetensors_header(bytes_of(huge).first(7), 7, "x").status()));
}

Manifest small_manifest() {
  Manifest manifest;
  manifest.position.step = Step(60);
  manifest.position.loss_scale = 0.1;
  manifest.position.validation_loss = 2.5;
  manifest.position.configuration = "x = \"1\"\n";
  manifest.world_size = 2;
  manifest.files = {{rank_file_name(0), 0, 5000, 4096, {1, 2}},
                    {rank_file_name(1), 1, 5000, 4096, {3, 4}}};
  const std::array<ManifestTensor, 3> parts = {
      ManifestTensor{4096, {5, 6}}, {4352, {7, 8}}, {4608, {9, 10}}};
  manifest.operators = {
      {"gate", 128, {{0, {0, 64}, parts, Fingerprint{11, 12}}, {1, {64, 128}, parts, {}}}}};
  return manifest;
}

TEST(ManifestTest, RoundTrips) {
  const Manifest manifest = small_manifest();
  const std::string text = manifest_text(manifest, ManifestKind::kCheckpoint).value();
  EXPECT_EQ(parse_manifest(text, ManifestKind::kCheckpoint, "m").value(), manifest);
  EXPECT_TRUE(absl::IsDataLoss(parse_manifest(text, ManifestKind::kRankPart, "m").status()));
  Manifest diverged = manifest;
  diverged.position.validation_loss = std::nan("");
  const std::string nan = manifest_text(diverged, ManifestKind::kCheckpoint).value();
  EXPECT_EQ(parse_manifest(nan, ManifestKind::kCheckpoint, "m")->position.validation_loss, -1);
}

TEST(ManifestTest, EveryFlippedBitIsFound) {
  const std::string text = manifest_text(small_manifest(), ManifestKind::kCheckpoint).value();
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(parse_manifest(flipped, ManifestKind::kCheckpoint, "m").status()))
        << bit;
  }
}

// The message for a manifest with one text replaced by another, under a good fingerprint.
std::string error_with(const std::string& from, const std::string& to) {
  const std::string text = manifest_text(small_manifest(), ManifestKind::kCheckpoint).value();
  const std::string body = text.substr(text.find('\n') + 1);
  EXPECT_THAT(body, HasSubstr(from));
  const auto parsed = parse_manifest(seal_manifest(absl::StrReplaceAll(body, {{from, to}})),
                                     ManifestKind::kCheckpoint, "m");
  return parsed.ok() ? "" : parsed.status().ToString();
}

TEST(ManifestTest, StrictAboutContent) {
  EXPECT_THAT(error_with("\"version\":1", "\"version\":4"),
              HasSubstr("UNIMPLEMENTED: m: has version 4, this program reads versions 1 to 3"));
  EXPECT_THAT(error_with("rank-0001.safetensors", "../../etc/passwd"), HasSubstr("is named"));
  EXPECT_THAT(error_with("\"begin\":64", "\"begin\":32"), HasSubstr("ranks 0 and 1 both hold"));
  EXPECT_THAT(error_with("\"begin\":64", "\"begin\":96"),
              HasSubstr("no rank holds elements 64 to 96"));
  EXPECT_THAT(error_with("\"flat_size\":128", "\"flat_size\":192"),
              HasSubstr("no rank holds elements 128 to 192"));
  EXPECT_THAT(error_with("\"offset\":4608", "\"offset\":4800"),
              HasSubstr("beyond the end of rank-0000"));
  EXPECT_THAT(error_with("\"offset\":4352", "\"offset\":0"),
              HasSubstr("\"offset\" is not an integer from 4096"));
  EXPECT_THAT(error_with("\"file\":1", "\"file\":2"),
              HasSubstr("\"file\" is not an integer from 0 to 1"));
  EXPECT_THAT(error_with("\"state_type\":\"fp32\"", "\"state_type\":\"fp31\""),
              HasSubstr("no element type"));
  EXPECT_THAT(error_with("\"world_size\":2", "\"world_size\":3"),
              HasSubstr("files of 2 of 3 ranks"));
  EXPECT_THAT(error_with("\"samples\":0", "\"samples\":18446744073709551615"),
              HasSubstr("samples"));
  EXPECT_THAT(error_with("\"samples\"", "\"simples\""), HasSubstr("has no \"samples\""));
}

TEST(NamesTest, OnlyCanonicalNamesAreSteps) {
  EXPECT_EQ(step_directory_name(Step(60)), "step-00000060");
  EXPECT_EQ(parse_step_directory("step-00000060"), Step(60));
  EXPECT_EQ(parse_step_directory("step-1234567890"), Step(1234567890));
  EXPECT_EQ(parse_step_directory("step-00000060.tmp", ".tmp"), Step(60));
  for (const char* name :
       {"step-60", "step-000000060", "step-00000060.tmp", "step--0000001", "step-", "latest"}) {
    EXPECT_FALSE(parse_step_directory(name).has_value()) << name;
  }
}

std::vector<int64_t> removed(const RetentionRules& rules, std::vector<RetainedCheckpoint> all,
                             int64_t published) {
  std::vector<int64_t> steps;
  for (const CheckpointRemoval& removal : checkpoints_to_remove(rules, all, Step(published))) {
    steps.push_back(removal.step.value);
  }
  return steps;
}

TEST(RetentionTest, ACheckpointStaysIfAnyRuleWantsIt) {
  const std::vector<RetainedCheckpoint> all = {
      {Step(10), 3.0}, {Step(20), 1.0}, {Step(30), 2.0}, {Step(40), -1}, {Step(50), 4.0}};
  EXPECT_THAT(removed({.keep_newest = 1, .keep_every_steps = 0, .keep_best = 0}, all, 50),
              ElementsAre(40, 30, 20, 10));
  EXPECT_THAT(removed({.keep_newest = 2, .keep_every_steps = 30, .keep_best = 1}, all, 50),
              ElementsAre(10));
  EXPECT_THAT(removed({.keep_newest = 9, .keep_every_steps = 0, .keep_best = 0}, all, 50),
              IsEmpty());
}

TEST(RetentionTest, ThePinnedOneStays) {
  const std::vector<RetainedCheckpoint> all = {{Step(10), 3.0}, {Step(20), 1.0}, {Step(30), 2.0}};
  EXPECT_THAT(removed({.keep_newest = 1, .keep_best = 0, .pinned = Step(10)}, all, 30),
              ElementsAre(20));
}

TEST(RetentionTest, WhatOneThatStaysNeedsStays) {
  const RetentionRules newest = {.keep_newest = 1, .keep_best = 0};
  const std::vector<RetainedCheckpoint> all = {{Step(10)},
                                               {Step(20), -1, true, {Step(10)}},
                                               {Step(30), -1, false},
                                               {Step(40)},
                                               {Step(50), -1, true, {Step(20), Step(30)}}};
  EXPECT_THAT(removed(newest, all, 50), ElementsAre(40, 10)) << "not what 20 needs in turn";
  EXPECT_THAT(removed({.keep_newest = 1, .keep_best = 0, .pinned = Step(20)}, all, 50),
              ElementsAre(40));
  EXPECT_THAT(removed(newest, all, 40), ElementsAre(10)) << "what an abandoned future needs";
  EXPECT_THAT(removed({.keep_newest = 2, .keep_best = 0}, all, 50), ElementsAre(10))
      << "what is only needed counts for no rule";
}

TEST(RetentionTest, ThePublishedOneStaysWhateverTheRules) {
  EXPECT_THAT(
      removed({.keep_newest = 0, .keep_every_steps = 0, .keep_best = 0}, {{Step(1), -1}}, 1),
      IsEmpty());
}

TEST(RetentionTest, DamagedOnesCountForNothingAndTheAbandonedFutureIsLeftAlone) {
  const std::vector<RetainedCheckpoint> all = {
      {Step(10)}, {Step(20), -1, false}, {Step(30)}, {Step(60)}};
  EXPECT_THAT(removed({.keep_newest = 2, .keep_every_steps = 0, .keep_best = 0}, all, 30),
              ElementsAre(20));
}

// Rounding by search among all 65536 values, for floats whose neighbours are far from its range.
TEST(CastsTest, NearestEvenAgainstADumbSearch) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    uint32_t bits = static_cast<uint32_t>(random());
    if (i % 2 == 0)
      bits = (bits & 0x80007fff) | (0x66 + static_cast<uint32_t>(random() % 0x30)) << 23 |
             (bits & 0x7fe000);
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    for (auto [cast, back] : {std::pair(&bf16_from_float, &float_from_bf16),
                              std::pair(&fp16_from_float, &float_from_fp16)}) {
      const uint16_t got = cast(value);
      if (std::isinf(back(got))) continue;  // checked below
      const double error = std::fabs(double{back(got)} - value);
      for (int step : {-1, 1}) {
        const uint16_t neighbour = static_cast<uint16_t>(got + step);
        const float other = back(neighbour);
        if (!std::isfinite(other) || std::signbit(other) != std::signbit(back(got))) continue;
        const double other_error = std::fabs(double{other} - value);
        EXPECT_TRUE(error < other_error || (error == other_error && got % 2 == 0)) << bits;
      }
    }
  }
}

TEST(CastsTest, EveryHalfAndBfloatComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    if (!std::isnan(float_from_bf16(half))) {
      EXPECT_EQ(bf16_from_float(float_from_bf16(half)), half);
    }
    if (!std::isnan(float_from_fp16(half))) {
      EXPECT_EQ(fp16_from_float(float_from_fp16(half)), half);
    }
  }
}

TEST(CastsTest, EdgesOfTheRange) {
  EXPECT_EQ(fp16_from_float(65519.996f), 0x7bff);
  EXPECT_EQ(fp16_from_float(65520.0f), 0x7c00);
  EXPECT_EQ(fp16_from_float(-1e9f), 0xfc00);
  EXPECT_EQ(fp16_from_float(0x1p-25f), 0);  // a tie goes to even
  EXPECT_EQ(fp16_from_float(0x1.000002p-25f), 1);
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::max()), 0x7f80);
  for (uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u}) {
    EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(std::bit_cast<float>(bits)))));
    EXPECT_TRUE(std::isnan(float_from_fp16(fp16_from_float(std::bit_cast<float>(bits)))));
  }
}

// Thousands of damaged inputs through the fuzzers' entry functions.
class MutationTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  std::string mutated(std::string text, std::mt19937_64& random) {
    const int count = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < count && !text.empty(); ++i) {
      const size_t at = random() % text.size();
      switch (random() % 5) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text[at] = "0123456789-{}[],:\"e."[random() % 20]; break;
        case 2: text.erase(at, random() % 9); break;
        case 3: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
        case 4: text[at] = static_cast<char>(text[at] ^ 1 << random() % 8); break;
      }
    }
    return text;
  }
};

// With what only a partial checkpoint has; as a rank's part with what only that has.
Manifest partial_manifest(ManifestKind kind, const PartTypes& types) {
  Manifest manifest = small_manifest();
  manifest.state_types = types;
  if (kind == ManifestKind::kRankPart) {
    manifest.files.resize(1);
    manifest.operators[0].shards.resize(1);
    manifest.base = Step(40);
    manifest.base_manifest = {13, 14};
    manifest.histories = {{"expert.0", 3, 4, false}, {"expert.1", 0, 5, true}};
    return manifest;
  }
  manifest.files.push_back({rank_file_name(0), 0, 5000, 4096, {1, 2}, Step(40)});
  ManifestOperator expert = manifest.operators[0];
  expert.name = "expert.0";
  expert.shards = {{2, {0, 64}, expert.shards[0].parts, {}}};
  expert.flat_size = 64;
  expert.unsaved_tokens = 3;
  expert.lost_tokens = 4;
  manifest.operators.insert(manifest.operators.begin(), expert);
  return manifest;
}

TEST_P(MutationTest, PartialManifestsAreReadLikeOthers) {
  std::mt19937_64 random(GetParam());
  constexpr PartTypes kNarrowParts = {ElementType::kFp16, ElementType::kFp8, ElementType::kFp16};
  for (ManifestKind kind : {ManifestKind::kCheckpoint, ManifestKind::kRankPart}) {
    for (const PartTypes& types : {same_types(ElementType::kFp32), kNarrowParts}) {
      const std::string text = manifest_text(partial_manifest(kind, types), kind).value();
      ASSERT_TRUE(parse_manifest(text, kind, "m").ok());
      const std::string body = text.substr(text.find('\n') + 1);
      int refused = 0;
      for (int i = 0; i < 1000; ++i) refused += !fuzz_manifest(bytes_of(mutated(body, random)));
      EXPECT_GT(refused, 500) << "seed " << GetParam();
    }
  }
}

TEST_P(MutationTest, DecodersAnswerEverything) {
  std::mt19937_64 random(GetParam());
  const std::string manifest = manifest_text(small_manifest(), ManifestKind::kCheckpoint).value();
  const std::string body = manifest.substr(manifest.find('\n') + 1);
  std::vector<SafetensorsTensor> tensors = {{"b", "F32", {3}, 0, 0}, {"a", "BF16", {2, 5}, 0, 0}};
  const std::string header = '\x08' + make_safetensors_header(tensors, {{"k", "v"}}, 8).value();
  EXPECT_TRUE(fuzz_manifest(bytes_of(body)));
  EXPECT_TRUE(fuzz_safetensors_header(bytes_of(header)));
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    refused += !fuzz_manifest(bytes_of(mutated(body, random)));
    refused += !fuzz_safetensors_header(bytes_of(mutated(header, random)));
  }
  EXPECT_GT(refused, 2000) << "seed " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Seeds, MutationTest, ::testing::Range<uint64_t>(1, 6));

}  // namespace
}  // namespace evermoe
