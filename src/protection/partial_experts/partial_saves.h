// LOSSY: what the partial-expert checkpoints of one stage hold, and what a restart from one of them
// costs (PEC; MoC-System section 3; corrected in partial_experts.h, lost_tokens.h and dynamic_k.h).
//
// Each checkpoint holds all non-expert state and K experts of every layer; of the others it refers
// to the newest older image. Beside that every rank copies more experts to its own memory. After a
// loss everybody goes back to the newest checkpoint C: an expert whose owners all live comes from
// their memory, any other one from storage, neither newer than C.
//
// The same on every lane of a stage: it moves by what verdicts say, so all of them choose the same
// experts. Copying to memory never waits for storage (protection/snapshots/triple_buffer.h): while
// one checkpoint is written, the next one waits in memory, or takes the place of one that waits.
// What is saved of it is chosen when the one before is committed; a choice whose checkpoint never
// commits is as if it had not been made.
//
// Pure. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "protection/partial_experts/dynamic_k.h"
#include "protection/partial_experts/expert_selection.h"
#include "protection/partial_experts/lost_tokens.h"
#include "protection/partial_experts/partial_experts.h"
#include "protection/snapshots/triple_buffer.h"

namespace evermoe {

struct PartialSavesOptions {
  int experts = 1;            // of a layer
  int layers = 0;             // of the model with experts
  int first_layer = 0;        // of the stage among them
  int stage_layers = 0;       // may be none
  std::vector<int> owner_of;  // by expert, the (first) lane that holds it; the same in every layer
  int lanes = 1;
  int saved = 1;      // K at first: experts of a layer in a checkpoint
  int in_memory = 1;  // at least so many of a layer are copied to memory
  ExpertSelection selection = ExpertSelection::kSequential;
  int64_t layer_tokens = 0;  // that gates of a layer send to experts in the whole run
  double plt_max = 1;        // of them all (plt_max); with 1, K stays
};

// What a checkpoint holds of one expert.
struct StoredExpert {
  Step saved_at{0};
  int64_t unsaved = 0;  // tokens that it learned from between then and the checkpoint
  int64_t lost = 0;     // by all restarts before
  friend bool operator==(const StoredExpert&, const StoredExpert&) = default;
};

// What a checkpoint says of all experts of the model, by layer and expert.
struct StoredExperts {
  Step step{0};
  std::vector<StoredExpert> experts;  // layers * experts of them
  int k = 0;                          // in force when it was made; 0: it is not of this strategy
  int64_t lost_under_k = 0;
};

// What a restart does with the experts of the model.
struct PartialRestart {
  std::vector<bool> from_memory;  // by layer and expert
  int64_t lost_now = 0;           // tokens, since the checkpoint was made
};

class PartialSaves {
 public:
  explicit PartialSaves(PartialSavesOptions options);

  // ---- restarts

  // What the images in this rank's memory are worth for a restart at this checkpoint (step 0: the
  // initial state). Returns for every expert of the model the tokens that its image lacks at that
  // step; kNoImage if this lane holds the expert and has no image of that commit or before,
  // kNotHeld if it does not hold it. `is_held`: by layer and expert of the stage.
  // REQUIRES: nothing waits or is under way.
  std::vector<int64_t> images_for(Step checkpoint, const std::vector<bool>& is_held) const;
  static constexpr int64_t kNoImage = -1;
  static constexpr int64_t kNotHeld = INT64_MAX;
  // Training goes on from there. `agreed`: the minimum of all ranks' images_for(). Doing it again
  // without a commit between loses nothing twice.
  PartialRestart restart(const StoredExperts& stored, std::span<const int64_t> agreed);

  // ---- steps and checkpoints of them

  // An update was made. `tokens`: that went to the experts of the stage, by layer and expert.
  void add_step(std::span<const int64_t> tokens);
  Step committed() const { return committed_; }  // the newest; Step(-1) for none
  // The state at `step` is to be copied to memory now: all but the experts that are not named.
  // Another one that waits is dropped: its copies may be overwritten. REQUIRES: steps ascend.
  const LossySelection& take(Step step);
  // Copied to memory, and not yet on its way to storage; Step(-1) for none.
  Step waiting() const { return waiting_ ? waiting_->step : Step(-1); }
  // Nobody will save what waits. REQUIRES: !is_under_way().
  void drop_waiting();

  // What waits goes to storage now, if nothing is under way. Everything is saved if no checkpoint
  // is committed yet. Null: nothing begins; what waited is dropped if it lacks experts that the
  // checkpoint would have to hold, because the one before has failed.
  const LossyTwoLevelSelection* begin();
  // Neither committed nor discarded yet.
  bool is_under_way() const { return under_way_.has_value(); }
  Step under_way() const { return under_way_ ? under_way_->step : Step(-1); }
  // What the checkpoint under way says of the experts of the stage, by layer and expert.
  // REQUIRES: is_under_way().
  const std::vector<StoredExpert>& stored() const;
  // What a checkpoint of everything at `step` would say, which is none of these.
  std::vector<StoredExpert> stored_by_whole(Step step) const;
  // K for the next checkpoint, of the whole model; a stage may save more.
  const LossyKState& k() const { return k_; }
  // The newest checkpoint that is published, as a verdict or a restart says. True if it is the one
  // under way, which is committed now.
  bool on_published(Step newest);
  // A rank could not write this checkpoint, or rank 0 not publish it, and nobody will try again.
  // True if it is the one under way, which is discarded now.
  bool on_failed(Step step);
  // Tokens lost by all restarts so far, of the whole model.
  int64_t lost() const { return k_.lost; }

 private:
  struct Waiting {
    Step step;
    LossySelection copied;
  };
  struct UnderWay {
    Step step;
    LossyTwoLevelSelection selection;  // snapshot: to memory; persist: to storage
    std::vector<StoredExpert> stored;
  };
  void move_buffers(BufferEvent event);
  LossySelection everything() const;
  // Of the state at the step of this snapshot.
  LossyTwoLevelSelection select(Step step) const;
  LossyTwoLevelSelection select(Step step, int k) const;
  // The least K that keeps the losses of the stage within its share of what may be lost.
  int guarded_k(Step step) const;
  LossyKOptions k_options(int layers) const;
  std::vector<StoredExpert> describe(Step step, const ExpertTable& unsaved,
                                     const LossySelection& saved) const;
  size_t first_of_stage() const {
    return static_cast<size_t>(options_.first_layer) * static_cast<size_t>(options_.experts);
  }

  const PartialSavesOptions options_;
  const std::vector<int> interleaved_;
  LossyTwoLevelCounters counters_;
  ExpertTable stored_at_, copied_at_;  // steps of the newest committed images
  ExpertTable lost_;                   // of the stage
  // What the images in this rank's memory lack at the newest commit; kNoImage. All else is the same
  // on all lanes.
  ExpertTable image_gap_;
  LossyKState k_;  // of the model
  Step committed_{-1};
  BufferState buffers_ = free_buffers(3);  // where the copies are of what follows
  std::optional<Waiting> waiting_;
  std::optional<UnderWay> under_way_;
};

}  // namespace evermoe
