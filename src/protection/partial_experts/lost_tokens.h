// LOSSY: the tokens that a failure would take from partial-expert checkpoints, and those it has
// taken.
//
// A failure restarts training at the last committed checkpoint C; steps after C are run again and
// nothing of them is lost. An expert that comes back from an older save s <= C has lost the tokens
// of the steps (max(s, B), C], B = the last restart before: what it had lost then was counted then.
// PLT (portion of lost tokens, PEC section 3.1) = lost / (sum over layers of tokens x TopK).
//
// The counters do this without steps: every step adds to `unsaved`; a snapshot copies it; a commit
// subtracts the copy from the experts it saved, and what the copy holds for all others is what a
// failure from now on loses. Snapshots that are still on their way when an older one commits are
// reduced as well, or their tokens would be subtracted twice.
#pragma once

#include <cstdint>
#include <map>

#include "protection/partial_experts/partial_experts.h"

namespace evermoe {

class LossyTokenCounters {
 public:
  LossyTokenCounters(int layers, int experts);

  // `tokens[layer][expert]` of one step.
  void add_step(const ExpertTable& tokens);
  // A checkpoint's state is fixed now, after the steps added so far. Versions ascend.
  void snapshot(int64_t version);
  // The checkpoint is durable on all ranks and held `saved`. Snapshots before it are forgotten.
  // REQUIRES: snapshot(version) was called, and neither committed nor discarded since.
  void commit(int64_t version, const LossySelection& saved);
  // It will never be committed. The experts it would have saved stay unsaved.
  void discard(int64_t version);

  // What a failure now would lose.
  int64_t exposed() const;
  // What a failure would lose after commit(version, saved).
  int64_t exposed_after(int64_t version, const LossySelection& saved) const;
  // A failure with restart at the last commit. Returns what is lost by it, and starts again.
  int64_t fault();

  const ExpertTable& unsaved() const { return unsaved_; }  // for lossy_load_aware
  // The same for a snapshot on its way. REQUIRES: neither committed nor discarded.
  const ExpertTable& unsaved_at(int64_t version) const;
  const ExpertTable& at_commit() const { return at_commit_; }  // exposed(), by layer and expert
  // All counters as after a restart at the last commit, with `unsaved` tokens that no save holds.
  void restart(ExpertTable unsaved);

 private:
  ExpertTable unsaved_;    // since the save that is an expert's newest committed one
  ExpertTable at_commit_;  // unsaved_ at the last commit's snapshot, less what it saved
  std::map<int64_t, ExpertTable> under_way_;  // unsaved_ at the snapshot, less commits since
};

// The same for two levels: a node that lives on restores its experts from its own newest committed
// snapshot in memory, a failed one from storage.
class LossyTwoLevelCounters {
 public:
  LossyTwoLevelCounters(int layers, int experts)
      : memory_(layers, experts), storage_(layers, experts) {}

  void add_step(const ExpertTable& tokens);
  void snapshot(int64_t version);
  void commit(int64_t version, const LossyTwoLevelSelection& saved);
  void discard(int64_t version);

  // `failed[layer][expert]`: whether the expert's node failed. What lived on keeps more than
  // storage holds, and may lose the rest when its own node fails later: that stays counted as
  // unsaved.
  int64_t fault(const std::vector<std::vector<bool>>& failed);
  // All counters as after a restart at the last commit, with tokens that images in memory and in
  // storage do not hold.
  void restart(ExpertTable unsaved_in_memory, ExpertTable unsaved_in_storage);

  const LossyTokenCounters& memory() const { return memory_; }
  const LossyTokenCounters& storage() const { return storage_; }

 private:
  LossyTokenCounters memory_;
  LossyTokenCounters storage_;
};

// tokens_total = sum over layers of tokens x TopK of the whole run, > 0.
double portion_of_lost_tokens(int64_t lost, int64_t tokens_total);

}  // namespace evermoe
