// Manifests of partial checkpoints: their text, and merging them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/format/manifest.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ManifestFile own_file(int rank) { return {rank_file_name(rank), rank, 5000, 4096, {1, 2}}; }

ManifestShard shard_of(int file, FlatRange range, uint64_t content) {
  return {file,
          range,
          {ManifestTensor{4096, {content, 1}}, {4352, {content, 2}}, {4608, {content, 3}}},
          Fingerprint{content, 4}};
}

Manifest empty_manifest(int64_t step) {
  Manifest manifest;
  manifest.position.step = Step(step);
  manifest.position.model_identity = "m";
  manifest.world_size = 2;
  return manifest;
}

// Whole, by two ranks: a gate and two experts.
Manifest base_of(int64_t step, uint64_t content = 1) {
  Manifest base = empty_manifest(step);
  base.files = {own_file(0), own_file(1)};
  for (const char* name : {"expert.0", "expert.1", "gate"}) {
    base.operators.push_back(
        {name, 64, {shard_of(0, {0, 32}, content), shard_of(1, {32, 64}, content)}});
  }
  return base;
}

// Of one rank of two: half of each of these operators; rank 0 has the histories.
Manifest part_of(int rank, int64_t step, const std::vector<std::string>& saved,
                 const Manifest& base) {
  Manifest part = empty_manifest(step);
  part.files = {own_file(rank)};
  for (const std::string& name : saved) {
    part.operators.push_back({name, 64, {shard_of(0, {rank * 32, rank * 32 + 32}, 100)}});
  }
  part.base = base.position.step;
  if (rank > 0) return part;
  for (const char* name : {"expert.0", "expert.1"}) {
    const bool is_saved = std::find(saved.begin(), saved.end(), name) != saved.end();
    part.histories.push_back({name, is_saved ? 0 : 9, 4, is_saved});
  }
  return part;
}

std::vector<Manifest> parts_of(int64_t step, const std::vector<std::string>& saved,
                               const Manifest& base) {
  return {part_of(0, step, saved, base), part_of(1, step, saved, base)};
}

TEST(PartialManifestTest, MergingTakesWhatIsUnsavedFromTheBase) {
  const Manifest first = base_of(10);
  const Manifest second =
      merge_manifests(parts_of(20, {"expert.0", "gate"}, first), &first).value();
  ASSERT_EQ(second.files.size(), 4u);
  EXPECT_EQ(second.files[1].step, Step(-1));
  EXPECT_EQ(second.files[2].step, Step(10));
  EXPECT_EQ(second.files[3].rank, 1);
  EXPECT_EQ(second.base, Step(-1));
  EXPECT_TRUE(second.histories.empty());
  const ManifestOperator& older = *second.find("expert.1");
  EXPECT_EQ(older.shards[1].file, 3);
  EXPECT_EQ(older.shards[1].parts, first.operators[1].shards[1].parts);
  EXPECT_EQ(older.unsaved_tokens, 9);
  EXPECT_EQ(older.lost_tokens, 4);
  EXPECT_EQ(second.find("expert.0")->unsaved_tokens, 0);
  EXPECT_EQ(second.find("expert.0")->lost_tokens, 4);
  EXPECT_EQ(saved_at(second, older), Step(10));
  EXPECT_TRUE(is_mixed(second));

  const Manifest third =
      merge_manifests(parts_of(30, {"expert.1", "gate"}, second), &second).value();
  EXPECT_THAT(needed_steps(third), ElementsAre(Step(20))) << "nothing refers to step 10 any more";
  EXPECT_EQ(third.files.size(), 4u);
  const Manifest fourth = merge_manifests(parts_of(40, {"gate"}, third), &third).value();
  EXPECT_THAT(needed_steps(fourth), ElementsAre(Step(20), Step(30)));
  EXPECT_EQ(saved_at(fourth, *fourth.find("expert.0")), Step(20));
  EXPECT_EQ(saved_at(fourth, *fourth.find("expert.1")), Step(30));
}

// The message of merging after `change` of the parts.
std::string merge_error(const std::function<void(std::vector<Manifest>&, Manifest&)>& change) {
  Manifest base = base_of(10);
  std::vector<Manifest> parts = parts_of(20, {"expert.0", "gate"}, base);
  change(parts, base);
  const absl::Status status = merge_manifests(parts, &base).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  return std::string(status.message());
}

TEST(PartialManifestTest, AnExpertIsSavedWholeOrNotAtAll) {
  EXPECT_THAT(
      merge_error([](auto& parts, auto&) { parts[1].operators.erase(parts[1].operators.begin()); }),
      HasSubstr("operator expert.0: no rank holds elements 32 to 64"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) {
                parts[1].operators.insert(parts[1].operators.begin() + 1,
                                          {"expert.1", 64, {shard_of(0, {32, 64}, 7)}});
              }),
              HasSubstr("operator expert.1 was not to be saved, but a rank holds it"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) {
                for (Manifest& part : parts) part.operators.erase(part.operators.begin());
              }),
              HasSubstr("operator expert.0 was to be saved, but no rank holds it"));
}

TEST(PartialManifestTest, AnExpertIsNowhereMissing) {
  EXPECT_THAT(
      merge_error([](auto&, auto& base) { base.operators.erase(base.operators.begin() + 1); }),
      HasSubstr("operator expert.1 is not saved, and the base has none of this name"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) { parts[0].histories.pop_back(); }),
              HasSubstr("operator expert.1 is missing: the base has it, no rank saved it"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) {
                for (Manifest& part : parts) part.operators.pop_back();
              }),
              HasSubstr("operator gate is missing"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) { parts[1].histories = parts[0].histories; }),
              HasSubstr("operator expert.0: two ranks have its history"));
}

TEST(PartialManifestTest, OnlyTheBaseThatAllNameIsMixedIn) {
  EXPECT_THAT(merge_error([](auto&, auto& base) { base.position.step = Step(11); }),
              HasSubstr("saved on the base of step 10, not on that of step 11"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) { parts[1].base = Step(9); }),
              HasSubstr("rank 1 and rank 0 saved on different bases"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) {
                parts[1].base_manifest = {1, 2};
              }),
              HasSubstr("rank 1 and rank 0 saved on different bases"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) { parts[1].view = 7; }),
              HasSubstr("rank 1 went back in view 7, rank 0 in view 0"));
  EXPECT_THAT(merge_error([](auto&, auto& base) { base.position.model_identity = "other"; }),
              HasSubstr("the base of step 10 has another model"));
  EXPECT_THAT(merge_error([](auto&, auto& base) { base.compute_type = ElementType::kBf16; }),
              HasSubstr("the base of step 10 has another element type"));
  EXPECT_THAT(merge_error([](auto& parts, auto&) {
                for (Manifest& part : parts) part.position.step = Step(10);
              }),
              HasSubstr("the base of step 10 is not older"));
  std::vector<Manifest> parts = parts_of(20, {"expert.0", "gate"}, base_of(10));
  EXPECT_TRUE(absl::IsDataLoss(merge_manifests(parts).status())) << "without the base";
}

TEST(PartialManifestTest, ASourceThatWasSavedAgainIsFound) {
  const Manifest base = base_of(10);
  const Manifest mixed = merge_manifests(parts_of(20, {"expert.0", "gate"}, base), &base).value();
  EXPECT_TRUE(check_source(mixed, base, "f").ok());
  const auto error = [&](const Manifest& older) {
    const absl::Status status = check_source(mixed, older, "f");
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error(base_of(10, 2)),
              HasSubstr("f/rank-0000.safetensors: operator expert.1 is not the one"));
  Manifest other = base;
  other.operators[0] = base_of(10, 2).operators[0];
  EXPECT_TRUE(check_source(mixed, other, "f").ok()) << "nothing is taken from expert.0";
  other = base;
  other.operators[1].shards[1].parts[2].fingerprint.low += 1;
  EXPECT_THAT(error(other), HasSubstr("f/rank-0001.safetensors: operator expert.1"));
  other = base;
  other.files[1].header.low += 1;
  EXPECT_THAT(error(other), HasSubstr("f/rank-0001.safetensors"));
  other.operators.erase(other.operators.begin() + 1);
  EXPECT_THAT(error(other), HasSubstr("f/rank-0000.safetensors: operator expert.1"));
}

Manifest mixed_manifest() {
  const Manifest base = base_of(10);
  return merge_manifests(parts_of(20, {"expert.0", "gate"}, base), &base).value();
}

std::string body_of(const Manifest& manifest, ManifestKind kind) {
  const std::string text = manifest_text(manifest, kind).value();
  return text.substr(text.find('\n') + 1);
}

TEST(PartialManifestTest, RoundTrips) {
  const Manifest mixed = mixed_manifest();
  const std::string text = manifest_text(mixed, ManifestKind::kCheckpoint).value();
  EXPECT_THAT(text, HasSubstr("\"version\":2"));
  EXPECT_EQ(parse_manifest(text, ManifestKind::kCheckpoint, "m").value(), mixed);
  EXPECT_EQ(to_hex(stated_fingerprint(text.substr(0, kManifestLineBytes), "m").value()),
            text.substr(16, 32));
  Manifest part = part_of(0, 20, {"expert.0", "gate"}, base_of(10));
  part.base_manifest = {5, 6};
  const std::string part_text = manifest_text(part, ManifestKind::kRankPart).value();
  EXPECT_THAT(part_text, HasSubstr("\"version\":2"));
  EXPECT_EQ(parse_manifest(part_text, ManifestKind::kRankPart, "m").value(), part);
}

TEST(PartialManifestTest, EachOfItsFieldsAloneMakesVersionTwo) {
  EXPECT_THAT(body_of(base_of(10), ManifestKind::kCheckpoint), HasSubstr("\"version\":1"));
  for (int64_t ManifestOperator::*tokens :
       {&ManifestOperator::unsaved_tokens, &ManifestOperator::lost_tokens}) {
    Manifest manifest = base_of(10);
    manifest.operators[0].*tokens = 1;
    EXPECT_THAT(body_of(manifest, ManifestKind::kCheckpoint), HasSubstr("\"version\":2"));
  }
  Manifest part = part_of(1, 20, {"gate"}, base_of(10));
  EXPECT_THAT(body_of(part, ManifestKind::kRankPart), HasSubstr("\"version\":2"));
  part.base = Step(-1);
  EXPECT_THAT(body_of(part, ManifestKind::kRankPart), HasSubstr("\"version\":1"));
  part.histories = {{"expert.0"}};
  EXPECT_THAT(body_of(part, ManifestKind::kRankPart), HasSubstr("\"version\":2"));
}

// The message for a text with one piece replaced by another, under a good fingerprint.
std::string error_of(const Manifest& manifest, ManifestKind kind, const std::string& from,
                     const std::string& to) {
  const std::string body = body_of(manifest, kind);
  EXPECT_THAT(body, HasSubstr(from));
  const auto parsed =
      parse_manifest(seal_manifest(absl::StrReplaceAll(body, {{from, to}})), kind, "m");
  EXPECT_TRUE(absl::IsDataLoss(parsed.status())) << parsed.status();
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(PartialManifestTest, StrictAboutContent) {
  const auto error = [](const std::string& from, const std::string& to) {
    return error_of(mixed_manifest(), ManifestKind::kCheckpoint, from, to);
  };
  const std::string older = "\"rank\":0,\"step\":10}";
  EXPECT_THAT(error("\"step\":10}", "\"step\":20}"),
              HasSubstr("\"step\" is not an integer from 0 to 19"));
  EXPECT_THAT(error("\"step\":10}", "\"step\":-1}"),
              HasSubstr("\"step\" is not an integer from 0 to 19"));
  EXPECT_THAT(error("\"step\":10}", "\"step\":\"../../x\"}"),
              HasSubstr("\"step\" is not an integer from 0 to 19"));
  EXPECT_THAT(error("\"name\":\"rank-0000.safetensors\"," + older, "\"name\":\"../x\"," + older),
              HasSubstr("the file of rank 0 is named \"../x\""));
  EXPECT_THAT(error(older, "\"rank\":0,\"step\":11}"),
              HasSubstr("files are not in the order of steps and ranks"));
  EXPECT_THAT(error(older, "\"rank\":0,\"step\":9}"),
              HasSubstr("operator expert.1: elements 32 to 64 are of step 10, others of step 9"));
  EXPECT_THAT(error("\"file\":3", "\"file\":1"),
              HasSubstr("operator expert.1: elements 32 to 64 are of step 20, others of step 10"));
  EXPECT_THAT(error("\"world_size\":2", "\"world_size\":4"), HasSubstr("files of 2 of 4 ranks"));
  EXPECT_THAT(error("\"unsaved_tokens\":9", "\"unsaved_tokens\":-9"), HasSubstr("unsaved_tokens"));
  EXPECT_THAT(error("\"lost_tokens\":4", "\"lost_tokens\":1e3"), HasSubstr("lost_tokens"));
  EXPECT_THAT(error("\"version\":2", "\"version\":1"), HasSubstr("files are not in the order"))
      << "what version 1 does not know is not read from it";
  Manifest of_strangers = base_of(10);
  of_strangers.files[1].rank = 2;
  of_strangers.files[1].name = rank_file_name(2);
  EXPECT_THAT(error_of(of_strangers, ManifestKind::kCheckpoint, "", ""),
              HasSubstr("has no file of rank 1 of 2"));
}

TEST(PartialManifestTest, StrictAboutParts) {
  const auto error = [](const std::string& from, const std::string& to) {
    return error_of(part_of(0, 20, {"gate"}, base_of(10)), ManifestKind::kRankPart, from, to);
  };
  EXPECT_THAT(error("\"step\":10}", "\"step\":20}"), HasSubstr("\"step\" is not an integer"));
  EXPECT_THAT(error("\"rank\":0}", "\"rank\":0,\"step\":10}"),
              HasSubstr("a part has a file of another step"));
  EXPECT_THAT(error("\"manifest\":\"0", "\"manifest\":\"x"), HasSubstr("fingerprint of 32"));
  EXPECT_THAT(error("\"is_saved\":false", "\"is_saved\":0"), HasSubstr("neither true nor false"));
  EXPECT_THAT(error("expert.1", "expert.0"), HasSubstr("histories are not in the order of names"));
  EXPECT_THAT(error("\"name\":\"expert.0\"", "\"name\":\"\""), HasSubstr("has an empty name"));
  EXPECT_THAT(error("\"unsaved_tokens\":9", "\"unsaved_tokens\":9007199254740993"),
              HasSubstr("\"unsaved_tokens\" is not an integer from 0 to 9007199254740992"));
}

}  // namespace
}  // namespace evermoe
