// Manifests whose parts have types of their own (version 3), and those that stay as they were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/format/fuzz_entries.h"
#include "checkpoint/format/manifest.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

constexpr PartTypes kNarrow = {ElementType::kFp16, ElementType::kFp8, ElementType::kFp16};

// One rank with one operator of 128 elements in these types.
Manifest typed_manifest(const PartTypes& types, ElementType compute) {
  Manifest manifest;
  manifest.position.step = Step(3);
  manifest.state_types = types;
  manifest.compute_type = compute;
  ManifestShard shard{.file = 0, .range = {0, 128}, .parts = {}, .compute = Fingerprint{1, 2}};
  int64_t end = 4096;
  for (const StatePart part : kStateParts) {
    shard.parts[static_cast<size_t>(part)] = {end, {3, 4}};
    end += stored_bytes(type_of(types, part), 128);
  }
  manifest.files = {{rank_file_name(0), 0, end, 4096, {5, 6}}};
  manifest.operators = {{"head", 128, {shard}}};
  return manifest;
}

std::string body_of(const Manifest& manifest) {
  const std::string text = manifest_text(manifest, ManifestKind::kCheckpoint).value();
  return text.substr(text.find('\n') + 1);
}

TEST(TypedManifestTest, IsReadAsItWasWritten) {
  for (const PartTypes& types :
       {kNarrow, same_types(ElementType::kBf16), same_types(ElementType::kFp8),
        PartTypes{ElementType::kFp32, ElementType::kFp8, ElementType::kFp8}}) {
    const Manifest manifest = typed_manifest(types, ElementType::kFp8);
    const std::string text = manifest_text(manifest, ManifestKind::kCheckpoint).value();
    EXPECT_THAT(text, HasSubstr("\"version\":3"));
    EXPECT_EQ(parse_manifest(text, ManifestKind::kCheckpoint, "m").value(), manifest);
    EXPECT_TRUE(fuzz_manifest(std::as_bytes(std::span(text))));
  }
}

TEST(TypedManifestTest, OldTypesStayVersionOneWithOneStateType) {
  for (const ElementType wide : {ElementType::kFp32, ElementType::kFp64}) {
    for (const ElementType compute : {wide, ElementType::kBf16, ElementType::kFp16}) {
      const std::string body = body_of(typed_manifest(same_types(wide), compute));
      EXPECT_THAT(body, HasSubstr("\"version\":1"));
      EXPECT_THAT(body, HasSubstr(std::string("\"state_type\":\"") + to_string(wide) + "\""));
      EXPECT_THAT(body, Not(HasSubstr("state_types")));
    }
  }
}

std::string error_with(const Manifest& manifest, const std::string& from, const std::string& to) {
  const std::string body = body_of(manifest);
  EXPECT_THAT(body, HasSubstr(from));
  const auto parsed = parse_manifest(seal_manifest(absl::StrReplaceAll(body, {{from, to}})),
                                     ManifestKind::kCheckpoint, "m");
  return parsed.ok() ? "" : parsed.status().ToString();
}

TEST(TypedManifestTest, StrictAboutTypes) {
  const Manifest typed = typed_manifest(kNarrow, ElementType::kFp8);
  EXPECT_THAT(error_with(typed, "\"exp_avg\":\"fp8\"", "\"exp_avg\":\"fp4\""),
              HasSubstr("m: state_types: \"exp_avg\" is no element type: \"fp4\""));
  EXPECT_THAT(error_with(typed, "\"exp_avg\":\"fp8\",", ""), HasSubstr("has no \"exp_avg\""));
  EXPECT_THAT(error_with(typed, "\"version\":3", "\"version\":2"),
              HasSubstr("has no \"state_type\""));
  EXPECT_THAT(error_with(typed, "\"end\":128", "\"end\":127"),
              HasSubstr("elements 0 to 127 are no whole blocks of fp8"));
  EXPECT_THAT(error_with(typed_manifest(same_types(ElementType::kFp8), ElementType::kFp8),
                         "\"compute_type\":\"fp8\"", "\"compute_type\":\"bf16\""),
              HasSubstr("master is fp8, compute weights are bf16"));
  const Manifest plain = typed_manifest(same_types(ElementType::kFp32), ElementType::kBf16);
  EXPECT_THAT(error_with(plain, "\"state_type\":\"fp32\"", "\"state_type\":\"bf16\""),
              HasSubstr("\"state_type\" is bf16, allowed: fp32, fp64"));
  EXPECT_THAT(error_with(plain, "\"compute_type\":\"bf16\"", "\"compute_type\":\"fp8\""),
              HasSubstr("fp8, which this version does not have"));
}

TEST(ManifestBalanceTest, WhereExpertsLiveComesBackAndNothingElseIsTaken) {
  Manifest manifest = typed_manifest(same_types(ElementType::kFp32), ElementType::kBf16);
  manifest.position.experts = {{.loads = {7, 0, 9}, .experts_of = {{0, 2}, {1, 2}}},
                               {.loads = {1, 1, 1}, .experts_of = {{0}, {1}, {2}}}};
  const auto text = manifest_text(manifest, ManifestKind::kCheckpoint);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto read = parse_manifest(*text, ManifestKind::kCheckpoint, "m");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->position.experts, manifest.position.experts);
  const auto refused = [&](const std::string& from, const std::string& to) {
    return error_with(manifest, from, to);
  };
  EXPECT_THAT(refused("[7,0,9]", "[7,-1,9]"), HasSubstr("\"loads\" is no list of loads"));
  EXPECT_THAT(refused("[[0,2],[1,2]]", "[[0,2],[0,2]]"), HasSubstr("does not place every expert"));
  EXPECT_THAT(refused("[[0,2],[1,2]]", "[[0,2],[1,3]]"), HasSubstr("does not place every expert"));
  EXPECT_THAT(refused("[[0,2],[1,2]]", "[[0,2],1]"), HasSubstr("\"lanes\" is no list of experts"));
  EXPECT_THAT(refused("[1,1,1]", "[1,1]"), HasSubstr("does not place every expert"));
}

TEST(ManifestTrainedOnTest, WhoTrainedComesBackAndNothingElseIsTaken) {
  Manifest manifest = typed_manifest(same_types(ElementType::kFp32), ElementType::kBf16);
  manifest.position.step = Step(20);
  manifest.position.trained_on = {{Step(0), {3, 3}}, {Step(8), {2, 3}}};
  const auto text = manifest_text(manifest, ManifestKind::kCheckpoint);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto read = parse_manifest(*text, ManifestKind::kCheckpoint, "m");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->position.trained_on, manifest.position.trained_on);
  const auto refused = [&](const std::string& from, const std::string& to) {
    return error_with(manifest, from, to);
  };
  EXPECT_THAT(refused("[3,3]", "[3,0]"), HasSubstr("\"trained_on\" is no list"));
  EXPECT_THAT(refused("[3,3]", "[]"), HasSubstr("\"trained_on\" is no list"));
  EXPECT_THAT(refused("[3,3]", "[3,-1]"), HasSubstr("\"trained_on\" is no list"));
  EXPECT_THAT(refused("\"step\":8", "\"step\":0"), HasSubstr("\"step\""));
  EXPECT_THAT(refused("\"step\":8", "\"step\":20"), HasSubstr("\"step\""));
}

TEST(TypedManifestTest, RanksAndBaseMustHaveTheSameTypes) {
  Manifest first = typed_manifest(kNarrow, ElementType::kFp8), second = first;
  first.world_size = second.world_size = 2;
  second.files[0] = {rank_file_name(1), 1, 5000, 4096, {5, 6}};
  second.operators.clear();
  const std::vector<Manifest> same = {first, second};
  EXPECT_TRUE(merge_manifests(same).ok());
  second.state_types[2] = ElementType::kBf16;
  const std::vector<Manifest> different = {first, second};
  EXPECT_THAT(merge_manifests(different).status().message(),
              HasSubstr("rank 1 and rank 0 saved different element types"));
}

}  // namespace
}  // namespace evermoe
