// How a run protects its state and replaces lost nodes, in the numbers that decide what failures
// cost.
//
// All times are seconds of a job that runs at full speed. A *save* fixes the whole state at the end
// of a step; training may stand still for it, and it can be used only when it has arrived. Sparse
// capture has no saves: every step captures a part, and recovery catches up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace evermoe {

// Where the state comes from after a failure, and what is run again.
enum class StateProtection : uint8_t {
  kDurable,         // the newest save on disk or remote storage; everybody goes back to it
  kPeerMemory,      // the newest save in peers' memory (as Gemini); everybody goes back to it
  kStageMemory,     // the same, but only stages that lost a rank go back, and catch up
  kPartialExperts,  // LOSSY: durable saves of K experts per layer (PEC); the others come back older
  kSparse,          // windows of sparse snapshots at peers; the stages that lost a rank catch up
  kReplicas,   // live replicas of every state in its stage (as Lazarus); only the step under way is
               // lost
  kGradients,  // saves and every step's gradients in peers' memory (as Checkmate); likewise
};

enum class NodeReplacement : uint8_t {
  kRestart,  // a spare or repaired node is started cold; without one the job waits
  kStandby,  // a warm standby takes the roles; without one like kRestart
  kElastic,  // goes on with the nodes there are, slower; grows again when nodes come
};

struct PeriodicSave {
  int64_t every_steps = 0;           // after steps that are multiples of this; 0: never
  double stall_seconds = 0;          // by which training stands still for one
  double durable_after_seconds = 0;  // of further training, until a failure can go back to it
  friend bool operator==(const PeriodicSave&, const PeriodicSave&) = default;
};

struct SparseCapture {
  int window = 1;     // W
  int lag_steps = 0;  // by which copies arrive later than the end of the next step
  // Catch-up to a dense state, if all stages take part: (W - 1) steps less what frozen operators
  // save.
  double conversion_seconds = 0;
  friend bool operator==(const SparseCapture&, const SparseCapture&) = default;
};

struct LossyExperts {
  int experts = 1;    // per layer
  int saved = 1;      // K
  int in_memory = 0;  // per layer and save: those that come back from there where their node lives
  friend bool operator==(const LossyExperts&, const LossyExperts&) = default;
};

// What an interruption takes apart from work that is done again.
struct RecoverySeconds {
  double detect = 0;
  double restart = 0;      // reschedule, start processes, connect, warm up: nothing was prepared
  double standby = 0;      // a warm standby takes the roles
  double reconfigure = 0;  // elastic: go on with other nodes
  double grow = 0;         // elastic: take in nodes that came
  double grow_wait = 0;    // elastic: so long after the first came, so that more can come
  double migrate = 0;      // training pauses while roles move to another node, states included
  double load_memory = 0;  // state from peers or replicas
  double load_durable = 0;
  friend bool operator==(const RecoverySeconds&, const RecoverySeconds&) = default;
};

struct RunStrategy {
  std::string name;
  StateProtection protection = StateProtection::kDurable;
  NodeReplacement replacement = NodeReplacement::kRestart;
  bool migrates = false;  // leaves announced nodes by planned moves while there are spares
  int copies =
      1;  // at peers; of live replicas: those beside the first, on other nodes of the stage
  double step_overhead_share = 0;  // longer step through capture and copies, as a share of it
  PeriodicSave save;  // durable, at peers, below gradients, or of partial experts; not sparse, not
                      // replicas. Never: no protection
  PeriodicSave fallback;  // durable, below saves at peers, sparse capture and replicas
  SparseCapture sparse;
  LossyExperts lossy;
  // Measured: a step that is run again before training goes on. 0: as the pipeline's shape has it,
  // and what everybody runs again is training that was undone.
  double step_again_seconds = 0;
  RecoverySeconds recovery;
  friend bool operator==(const RunStrategy&, const RunStrategy&) = default;
};

const char* to_string(StateProtection protection);
const char* to_string(NodeReplacement replacement);

// Whether roles can be moved while the job trains: their states go by way of peers' memory (or are
// live there anyway). A job that keeps nothing there is drained before an announced node goes.
bool can_move_roles(StateProtection protection);

// What of a strategy the runtime does not have, and so can only be forecast: "recovery from live
// replicas". Empty if it runs.
std::string missing_in_runtime(const RunStrategy& strategy);

// One rank's state: the place that has it, and those that keep copies of it.
struct CopiedState {
  int place = 0;
  std::vector<int> holders;
};

// The job as far as failures see it.
struct TrainedJob {
  double step_seconds = 1;  // without any protection
  int nodes = 1;            // at full speed
  int nodes_least = 1;      // below which an elastic job waits
  // Elastic: so many nodes only count together. A pipeline is as fast as its narrowest stage, so a
  // node less in one stage is of no more use than a node less in each: one per stage. 1 without
  // stages.
  int elastic_unit = 1;
  int stages = 1;
  int rounds = 1;                        // of micro-batches per step and stage
  int racks = 0;                         // copies go to nodes of other racks; 0: to other nodes
  std::vector<CopiedState> states = {};  // who keeps copies of whom; empty: job_places.h's rule

  // The fewest nodes on which it runs at all: all of them, or, elastic, enough for a node in every
  // stage.
  int nodes_needed(bool is_elastic) const {
    return is_elastic ? std::min(nodes, std::max(nodes_least, elastic_unit)) : nodes;
  }
  // Of full speed, with so many nodes.
  double speed(int filled) const {
    return filled == nodes ? 1 : static_cast<double>(filled / elastic_unit * elastic_unit) / nodes;
  }
  // One stage redoes a step in rounds / (rounds + stages - 1) of it; j adjacent ones in this share.
  double stage_share(int adjacent) const {
    return static_cast<double>(rounds + adjacent - 1) / (rounds + stages - 1);
  }
};

}  // namespace evermoe
