// How a job is protected, as one value: what is captured after which step, where it is kept, whom
// a loss sends back and to what, and whether the state afterwards is the one that was lost. Whoever
// captures, keeps, plans a recovery or tells people about it asks these, never the strategy's name.
//
// config/job_strategy.h makes it of a configuration. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace evermoe {

enum class StrategyKind : uint8_t {
  kSparse,          // MoEtion: some operators after each step, so that a window covers all of them
  kDense,           // all operators at once; a lost role's stage goes back alone
  kGradients,       // all operators now and then, and each step's gradients: nobody goes back
  kPeerMemory,      // Gemini: all operators at once; everybody goes back
  kCheckfreq,       // CheckFreq: durable checkpoints as often as an overhead budget allows
  kPartialExperts,  // PEC, MoC: LOSSY; durable checkpoints with a few experts of each layer
  kNone,            // durable checkpoints only
};
inline constexpr StrategyKind kStrategyKinds[] = {
    StrategyKind::kSparse,     StrategyKind::kDense,     StrategyKind::kGradients,
    StrategyKind::kPeerMemory, StrategyKind::kCheckfreq, StrategyKind::kPartialExperts,
    StrategyKind::kNone};
// The name in a configuration.
std::string_view to_string(StrategyKind kind);

// What is restored after the loss of a role, and where from.
enum class Restore : uint8_t {
  // The role's stage, from the newest window in memory. The others stay where they are and feed it
  // from their logs.
  kStage,
  // The role alone: a snapshot in memory, and the updates since with the gradients that are kept
  // there, too. Nobody goes back.
  kRoleByUpdates,
  // Everybody, from the newest window in memory.
  kEverybody,
  // Everybody, from a durable checkpoint. The others come to this, too, where nobody has a role's
  // copies any more.
  kEverybodyFromStorage,
};

// How long a rank keeps the messages that it has sent across the boundaries of its stage.
enum class LogReach : uint8_t {
  kStep,    // the step under way and the one before: for a view in which nobody goes back
  kWindow,  // as far as a stage may have to go back alone
};

// Operators are captured in windows (protection/schedule/window.h).
struct CaptureRule {
  int slots = 1;             // of a window when the run begins; ranks agree on the fewest
  int slots_max = 1 << 20;   // of any window: what there is memory for
  int period = 0;            // steps from one window to the next, at least; 0: back to back
  bool is_measured = false;  // later windows are as long as measurements say
};

struct Strategy {
  StrategyKind kind = StrategyKind::kSparse;
  bool is_exact = true;  // a recovery gives the bits of the run that never failed
  Restore restore = Restore::kStage;
  // Copies go out in the gaps of the training's own messages (protection/schedule/copy_gate.h), and
  // have time until the next window begins. False: the step after a capture waits for its copies.
  bool sends_in_gaps = false;
  // Durable saves come as often as they cost no more than protection.overhead_budget, and are
  // copied while the next step runs. False: they come every checkpoint.every_steps, and training
  // waits for the copy.
  bool tunes_saves = false;
  // LOSSY: durable saves hold a few experts of each layer (protection/partial_experts), and ranks
  // that live restore newer images from their own memory.
  bool saves_few_experts = false;
  CaptureRule captures;

  // Captured operators go to the memory of peers.
  bool keeps_copies() const { return restore != Restore::kEverybodyFromStorage; }
  // The gradients of each step go there, too, before the step is committed.
  bool keeps_gradients() const { return restore == Restore::kRoleByUpdates; }
  bool sends_everybody_back() const {
    return restore == Restore::kEverybody || restore == Restore::kEverybodyFromStorage;
  }
  LogReach log() const;
};

// What does not depend on the keys of a strategy. The captures are their defaults.
Strategy strategy_of(StrategyKind kind);

}  // namespace evermoe
