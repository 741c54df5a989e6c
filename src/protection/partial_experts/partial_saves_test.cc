// Oracle: what every expert's state has learned from, in tokens, beside the lanes of a stage that
// save, lose processes and restart.
#include "protection/partial_experts/partial_saves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "protection/counter_random_testing.h"

namespace evermoe {
namespace {

constexpr int kExperts = 4;
constexpr int kLayers = 2;
constexpr int kAll = kExperts * kLayers;
constexpr int64_t kTokens = 10;  // of a layer in a step
constexpr int64_t kSteps = 100;

PartialSavesOptions options(int saved, int in_memory) {
  return {.experts = kExperts,
          .layers = kLayers,
          .stage_layers = kLayers,
          .owner_of = {0, 0, 1, 1},
          .lanes = 2,
          .saved = saved,
          .in_memory = in_memory,
          .layer_tokens = kTokens * kSteps};
}

// A stage of two lanes that hold two experts of each layer, or with replicas all four.
class Stage {
 public:
  using Tokens = std::vector<int64_t>;  // by layer and expert

  explicit Stage(PartialSavesOptions options, bool has_replicas = false)
      : options_(std::move(options)), has_replicas_(has_replicas), learned_(kAll, 0) {
    lanes_.resize(2);
    for (Lane& lane : lanes_) lane = newcomer();
    restart();
  }

  void step(const Tokens& tokens) {
    for (int i = 0; i < kAll; ++i) learned_[i] += tokens[i];
    for (Lane& lane : lanes_) lane.saves->add_step(tokens);
    ++step_;
  }
  // So many tokens to every expert.
  void steps(int count, int64_t tokens) {
    for (int i = 0; i < count; ++i) step(Tokens(kAll, tokens));
  }
  // The present state is copied to memory; one that waited there is given up.
  void take() {
    const LossySelection& copied = lanes_[0].saves->take(Step(step_));
    EXPECT_EQ(copied, lanes_[1].saves->take(Step(step_)));
    taken_ = {.step = step_, .learned = learned_, .lost = really_lost_};
    for (size_t l = 0; l < lanes_.size(); ++l) {
      lanes_[l].waiting.clear();
      for_each(copied, [&](int i) {
        if (holds(l, i)) lanes_[l].waiting[i] = learned_[i];
      });
    }
  }
  // What waits goes to storage, if it can.
  bool begin() {
    const LossyTwoLevelSelection* const chosen = lanes_[0].saves->begin();
    const LossyTwoLevelSelection* const other = lanes_[1].saves->begin();
    EXPECT_EQ(chosen == nullptr, other == nullptr);
    if (chosen == nullptr) return false;
    EXPECT_EQ(chosen->persist, other->persist);
    EXPECT_EQ(chosen->snapshot, other->snapshot);
    EXPECT_EQ(lanes_[0].saves->stored(), lanes_[1].saves->stored());
    writing_ = taken_;
    writing_.k = lanes_[0].saves->k();
    writing_.images = published_.images;
    for_each(chosen->persist, [&](int i) { writing_.images[i] = taken_.learned[i]; });
    writing_.stored = lanes_[0].saves->stored();
    for (Lane& lane : lanes_) {
      for (const auto& [i, learned] : lane.waiting) EXPECT_EQ(learned, taken_.learned[i]);
      lane.copying = std::exchange(lane.waiting, {});
    }
    return true;
  }
  void begin_save() {
    take();
    EXPECT_TRUE(begin());
  }
  // It is on storage; nobody has heard of it.
  void publish() { published_ = writing_; }
  void tell_published(size_t lane) { settle(lanes_[lane], published_.step); }
  void save() {
    begin_save();
    publish();
    tell_all();
  }
  void fail_save() {
    for (Lane& lane : lanes_) {
      EXPECT_TRUE(lane.saves->on_failed(Step(writing_.step)));
      lane.copying.clear();
    }
  }
  bool is_under_way() const { return lanes_[0].saves->is_under_way(); }
  bool is_published_unheard() const {
    return is_under_way() && published_.step == lanes_[0].saves->under_way().value;
  }
  int64_t waiting() const { return lanes_[0].saves->waiting().value; }
  int64_t committed() const { return lanes_[0].saves->committed().value; }
  void tell_all() {
    for (size_t l = 0; l < lanes_.size(); ++l) tell_published(l);
  }

  // These lanes' processes are lost; everybody goes back. Returns what the restart says it lost.
  int64_t lose(const std::vector<size_t>& lost) {
    for (const size_t lane : lost) lanes_[lane] = newcomer();
    return restart();
  }

  int64_t lost() const {
    EXPECT_EQ(lanes_[0].saves->lost(), lanes_[1].saves->lost());
    return lanes_[0].saves->lost();
  }
  int k() const { return lanes_[0].saves->k().k; }
  int64_t step() const { return step_; }

 private:
  struct Image {
    int64_t step = 0;
    LossyKState k;
    Tokens images = Tokens(kAll, 0);  // what they have learned
    std::vector<StoredExpert> stored = std::vector<StoredExpert>(kAll);
    // When it was begun, of all experts:
    Tokens learned = Tokens(kAll, 0);
    int64_t lost = 0;
  };
  struct Lane {
    std::unique_ptr<PartialSaves> saves;
    std::map<int, int64_t> copies, copying, waiting;  // by layer and expert
  };

  Lane newcomer() const { return {.saves = std::make_unique<PartialSaves>(options_)}; }
  bool holds(size_t lane, int i) const {
    return has_replicas_ || options_.owner_of[i % kExperts] == static_cast<int>(lane);
  }
  template <typename Visit>
  static void for_each(const LossySelection& chosen, const Visit& visit) {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const int e : chosen[static_cast<size_t>(layer)]) visit(layer * kExperts + e);
    }
  }
  static void settle(Lane& lane, int64_t newest) {
    if (!lane.saves->on_published(Step(newest))) return;
    for (const auto& [i, learned] : lane.copying) lane.copies[i] = learned;
    lane.copying.clear();
  }

  int64_t restart() {
    std::vector<int64_t> agreed(kAll, PartialSaves::kNotHeld);
    const Step at(published_.step);
    for (size_t l = 0; l < lanes_.size(); ++l) {
      PartialSaves& saves = *lanes_[l].saves;
      settle(lanes_[l], published_.step);
      const Step left = saves.under_way();
      EXPECT_EQ(saves.on_failed(left), left >= Step(0));
      saves.drop_waiting();
      lanes_[l].waiting.clear();
      std::vector<bool> held;
      for (int i = 0; i < kAll; ++i) held.push_back(holds(l, i));
      const std::vector<int64_t> own = saves.images_for(at, held);
      for (int i = 0; i < kAll; ++i) agreed[i] = std::min(agreed[i], own[i]);
    }
    const StoredExperts stored{.step = at,
                               .experts = published_.stored,
                               .k = published_.step > 0 ? published_.k.k : 0,
                               .lost_under_k = published_.k.lost_under_k};
    PartialRestart result;
    for (Lane& lane : lanes_) result = lane.saves->restart(stored, agreed);
    take_images(result);
    int64_t gone = 0;
    for (int i = 0; i < kAll; ++i) gone += published_.learned[i] - learned_[i];
    really_lost_ = published_.lost + gone;
    EXPECT_EQ(result.lost_now, gone);
    EXPECT_EQ(lost(), really_lost_);
    step_ = published_.step;
    return result.lost_now;
  }
  void take_images(const PartialRestart& result) {
    for (int i = 0; i < kAll; ++i) {
      learned_[i] = published_.images[i];
      for (size_t l = 0; l < lanes_.size(); ++l) {
        if (!result.from_memory[i]) {
          lanes_[l].copies.erase(i);
        } else if (holds(l, i)) {
          ASSERT_TRUE(lanes_[l].copies.contains(i)) << i;
          learned_[i] = lanes_[l].copies.at(i);
        }
      }
    }
  }

  const PartialSavesOptions options_;
  const bool has_replicas_;
  std::vector<Lane> lanes_;
  Tokens learned_;
  Image published_, writing_, taken_;
  int64_t step_ = 0;
  int64_t really_lost_ = 0;
};

TEST(PartialSavesTest, TheFirstCheckpointHoldsEverything) {
  PartialSaves saves(options(1, 1));
  saves.take(Step(5));
  for (const std::vector<int>& layer : saves.begin()->persist) EXPECT_EQ(layer.size(), kExperts);
  EXPECT_TRUE(saves.on_published(Step(5)));
  EXPECT_EQ(saves.committed(), Step(5));
  saves.take(Step(10));
  for (const std::vector<int>& layer : saves.begin()->persist) EXPECT_EQ(layer.size(), 1);
}

// Storage is slower than the interval of checkpoints: the newest copy is the one that is saved.
TEST(PartialSavesTest, WhileStorageIsBusyTheNewestCopyWaits) {
  Stage stage(options(1, kExperts));
  stage.steps(10, 5);
  stage.begin_save();
  stage.steps(10, 5);
  stage.take();
  EXPECT_FALSE(stage.begin()) << "one is under way";
  stage.steps(10, 5);
  stage.take();
  EXPECT_EQ(stage.waiting(), 30) << "in the place of step 20";
  stage.publish();
  stage.tell_all();
  EXPECT_TRUE(stage.begin());
  EXPECT_EQ(stage.waiting(), -1);
  stage.steps(10, 5);
  stage.publish();
  stage.tell_all();
  EXPECT_EQ(stage.committed(), 30);
  // All experts are in memory as they were at step 30; on storage three of each layer are of 10.
  EXPECT_EQ(stage.lose({}), 0);
  EXPECT_EQ(stage.lose({0, 1}), 2 * 3 * 20 * 5);
  EXPECT_EQ(stage.step(), 30);
}

TEST(PartialSavesTest, WhatWaitsIsOfNoUseIfTheFirstCheckpointFails) {
  Stage stage(options(1, 1));
  stage.steps(10, 5);
  stage.begin_save();
  stage.steps(10, 5);
  stage.take();
  stage.fail_save();
  EXPECT_FALSE(stage.begin()) << "it has one expert of each layer, and no other checkpoint has any";
  EXPECT_EQ(stage.waiting(), -1);
  stage.steps(10, 5);
  stage.save();
  EXPECT_EQ(stage.lose({0, 1}), 0);
  EXPECT_EQ(stage.step(), 30);
}

TEST(PartialSavesTest, WithoutMemoryARestartLosesWhatWasNotSavedSince) {
  Stage stage(options(1, 1));
  stage.steps(10, 5);
  stage.save();
  EXPECT_EQ(stage.lose({0}), 0) << "everything is in the first checkpoint";
  stage.steps(10, 5);
  stage.save();
  stage.steps(3, 5);
  // Three experts of each of two layers have ten steps' tokens that are not on storage.
  EXPECT_EQ(stage.lose({0, 1}), 2 * 3 * 10 * 5);
  EXPECT_EQ(stage.step(), 20);
}

TEST(PartialSavesTest, WhoLivesLosesNothingThatItsMemoryHas) {
  Stage stage(options(1, kExperts));
  for (int i = 0; i < 2; ++i) {
    stage.steps(10, 5);
    stage.save();
  }
  stage.steps(3, 5);
  // Lane 1's experts are in its memory; of lane 0's four one of each layer may just be saved.
  const int64_t lost = stage.lose({0});
  EXPECT_GT(lost, 0);
  EXPECT_LE(lost, 2 * 2 * 10 * 5);
  EXPECT_EQ(stage.lose({0}), lost) << "again, of the same checkpoint: the same, not twice";
  EXPECT_EQ(stage.lost(), lost);
}

// One of two replicas is gone: their shards must be of one step.
TEST(PartialSavesTest, AnExpertComesFromMemoryOnlyIfAllItsOwnersHaveIt) {
  Stage stage(options(1, kExperts), true);
  for (int i = 0; i < 2; ++i) {
    stage.steps(10, 5);
    stage.save();
  }
  EXPECT_EQ(stage.lose({0}), 2 * 3 * 10 * 5);
}

TEST(PartialSavesTest, ASaveThatFailedCountsForNothing) {
  Stage stage(options(1, 1));
  stage.steps(10, 5);
  stage.save();
  stage.steps(10, 5);
  stage.begin_save();
  stage.fail_save();
  EXPECT_EQ(stage.lose({0, 1}), 0);
  EXPECT_EQ(stage.step(), 10);
}

TEST(PartialSavesTest, AFailureBetweenPublishingAndHearingOfItRestartsFromThere) {
  Stage stage(options(1, kExperts));
  stage.steps(10, 5);
  stage.save();
  stage.steps(10, 5);
  stage.begin_save();
  stage.publish();
  stage.tell_published(1);
  EXPECT_EQ(stage.lose({}), 0) << "all live, and have copied everything";
  EXPECT_EQ(stage.step(), 20);
}

// Everything at random, many times: what is said to be lost is what the states really lack.
TEST(PartialSavesTest, LossesAreWhatTheStatesLack) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    CounterRandom random(seed);
    const auto one_in = [&](int64_t n) { return random.integer(1, n) == 1; };
    PartialSavesOptions drawn = options(1 + static_cast<int>(random.integer(0, 1)), 1);
    drawn.in_memory = static_cast<int>(random.integer(drawn.saved, kExperts));
    if (one_in(2)) drawn.selection = ExpertSelection::kLoadAware;
    if (one_in(2)) drawn.plt_max = 0.05;
    Stage stage(drawn, one_in(3));
    for (int event = 0; event < 120; ++event) {
      Stage::Tokens tokens;
      for (int i = 0; i < kAll; ++i) tokens.push_back(random.integer(0, 3));
      stage.step(tokens);
      if (one_in(5)) stage.take();
      if (one_in(3) && stage.is_under_way()) {
        if (one_in(4) && !stage.is_published_unheard()) {
          stage.fail_save();
        } else {
          stage.publish();
          if (!one_in(4)) stage.tell_all();  // or nobody hears of it yet
        }
      }
      if (!stage.is_published_unheard()) stage.begin();
      if (one_in(12)) {
        std::vector<size_t> lost;
        for (size_t lane = 0; lane < 2; ++lane) {
          if (one_in(2)) lost.push_back(lane);
        }
        stage.lose(lost);
      }
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PartialSavesTest, LossesNeverExceedWhatMayBeLost) {
  PartialSavesOptions bounded = options(1, 1);
  bounded.plt_max = 0.05;
  Stage stage(bounded);
  const auto most = static_cast<int64_t>(0.05 * kTokens * kSteps * kLayers);
  int k_max = 1;
  while (stage.step() < kSteps - 10) {
    const int64_t before = stage.step();
    stage.steps(5, kTokens / kExperts);
    stage.save();
    stage.steps(5, kTokens / kExperts);
    stage.save();
    stage.steps(1, kTokens / kExperts);
    stage.lose({0, 1});
    k_max = std::max(k_max, stage.k());
    EXPECT_LE(stage.lost(), most);
    EXPECT_EQ(stage.step(), before + 10);
  }
  EXPECT_GT(stage.lost(), 0);
  EXPECT_GT(k_max, 1) << "Dynamic-K never moved";
}

}  // namespace
}  // namespace evermoe
