// Which saves on the ranks' own disks all can go on from.
#include "checkpoint/tiers/local_saves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Fingerprint kJob{1, 2};
constexpr Fingerprint kOtherJob{1, 3};

LocalSave committed(int64_t step, Fingerprint origin = kJob, int64_t term = 1) {
  return {Step(step), origin, term, true};
}
LocalSave prepared(int64_t step, Fingerprint origin = kJob, int64_t term = 1) {
  return {Step(step), origin, term, false};
}

std::vector<LocalSave> usable(const std::vector<std::vector<LocalSave>>& told, int64_t term = 0) {
  return usable_local_saves(told, term);
}

TEST(LocalSavesTest, WhatAllHaveAndOneHasBeenToldOf) {
  EXPECT_THAT(usable({{committed(8), committed(4)}, {prepared(8), committed(4)}}),
              ElementsAre(committed(8), committed(4)));
}

TEST(LocalSavesTest, PreparedEverywhereIsNotCommitted) {
  EXPECT_THAT(usable({{prepared(8), committed(4)}, {prepared(8), committed(4)}}),
              ElementsAre(committed(4)));
}

TEST(LocalSavesTest, OneThatLacksItSendsAllToAnother) {
  EXPECT_THAT(usable({{committed(8), committed(4)}, {committed(4)}}), ElementsAre(committed(4)));
  EXPECT_THAT(usable({{committed(8), committed(4)}, {}}), IsEmpty());
  EXPECT_THAT(usable({}), IsEmpty());
}

TEST(LocalSavesTest, SavesOfDifferentJobsAreNeverOne) {
  EXPECT_THAT(usable({{committed(8, kOtherJob)}, {committed(8)}}), IsEmpty());
  EXPECT_THAT(usable({{committed(8, kOtherJob), prepared(8)}, {committed(8)}}),
              ElementsAre(committed(8)));
}

TEST(LocalSavesTest, OlderThanTheTermOfSharedStorageIsAFutureThatWasGivenUp) {
  EXPECT_THAT(usable({{committed(8, kJob, 3)}, {committed(8, kJob, 3)}}, 4), IsEmpty());
  // One rank had not heard of the new host yet.
  EXPECT_THAT(usable({{committed(8, kJob, 3)}, {committed(8, kJob, 4)}}, 4),
              ElementsAre(committed(8, kJob, 4)));
}

TEST(LocalSavesTest, NumbersSayEverything) {
  const LocalSave save{Step(7), {~uint64_t{0}, 5}, 9, true};
  EXPECT_EQ(from_numbers(to_numbers(save)), save);
  EXPECT_EQ(from_numbers(to_numbers(LocalSave{})), LocalSave{});
}

TEST(LocalSavesTest, ThoseOfAnotherRunAreOfAnotherOrigin) {
  Manifest part;
  const Fingerprint first = origin_of(part);
  EXPECT_EQ(origin_of(part), first);
  part.view = 7;
  EXPECT_NE(origin_of(part), first);
}

TEST(LocalSavesTest, APartOfACheckpointHasItsBits) {
  const auto shard = [](FlatRange range, uint64_t bits) {
    ManifestShard result{.range = range};
    for (ManifestTensor& tensor : result.parts) tensor.fingerprint = {bits, bits};
    return result;
  };
  Manifest whole, part;
  whole.operators = {
      {.name = "gate", .flat_size = 8, .shards = {shard({0, 8}, 1)}},
      {.name = "head", .flat_size = 8, .shards = {shard({0, 4}, 2), shard({4, 8}, 3)}}};
  part.operators = {{.name = "head", .flat_size = 8, .shards = {shard({4, 8}, 3)}}};
  EXPECT_TRUE(is_part_of(part, whole));
  part.operators[0].shards = {shard({4, 8}, 2)};
  EXPECT_FALSE(is_part_of(part, whole)) << "other bits";
  part.operators[0].shards = {shard({0, 8}, 3)};
  EXPECT_FALSE(is_part_of(part, whole)) << "another range";
  part.operators = {{.name = "tail", .flat_size = 8, .shards = {shard({0, 4}, 2)}}};
  EXPECT_FALSE(is_part_of(part, whole)) << "another operator";
}

TEST(LocalSavesTest, ARangeIsHeldByOneShard) {
  Manifest part;
  part.operators = {{.name = "head", .flat_size = 100, .shards = {{.range = {20, 60}}}}};
  EXPECT_TRUE(holds_range(part, "head", 100, {20, 60}));
  EXPECT_TRUE(holds_range(part, "head", 100, {30, 40}));
  EXPECT_FALSE(holds_range(part, "head", 100, {10, 40}));
  EXPECT_FALSE(holds_range(part, "head", 200, {20, 60}));
  EXPECT_FALSE(holds_range(part, "gate", 100, {20, 60}));
}

}  // namespace
}  // namespace evermoe
