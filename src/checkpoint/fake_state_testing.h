// Tests and benchmarks only: a training state made of numbers, cut over any number of ranks, and
// saved by as many savers in one process.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/read/checkpoint_reader.h"
#include "checkpoint/write/checkpoint_saver.h"
#include "env/files.h"

namespace evermoe {

// How operators are dealt to ranks.
enum class FakeCut {
  kEven,      // every operator over all ranks
  kWhole,     // operator i whole on rank i mod world
  kLopsided,  // rank 0 has most of everything; the last rank may have nothing
};

struct FakeState {
  std::vector<std::pair<std::string, int64_t>> operators = {{"embedding", 640},
                                                            {"head", 1280},
                                                            {"layer.0.block", 4096},
                                                            {"layer.0.expert.0", 64},
                                                            {"layer.0.expert.1", 1024}};
  PartTypes state_types = same_types(ElementType::kFp32);
  ElementType compute_type = ElementType::kBf16;
  uint64_t seed = 1;                      // of the content
  std::map<std::string, uint64_t> seeds;  // of operators whose content is another one

  // The whole flat bytes of a part: finite numbers that depend on seed, operator and element.
  std::vector<std::byte> bytes(size_t op, StatePart part) const;
  std::vector<std::byte> compute_bytes(size_t op) const;
  TrainingPosition position(Step step) const;
  // What CheckpointReader::digest() must be.
  Fingerprint digest(Step step) const;
  // This rank's shards; the state must outlive them.
  std::vector<ShardSource> shards(int rank, int world, FakeCut cut) const;
};

// What a partial save of a fake state leaves out. Rank 0 writes the histories of all experts.
struct FakePartial {
  Step base{-1};
  std::vector<std::string> unsaved = {};  // operators
  int64_t unsaved_tokens = 0;             // of each of these
  int64_t lost_tokens = 0;                // of every expert
};

// The savers of all ranks.
class FakeJob {
 public:
  static absl::StatusOr<std::unique_ptr<FakeJob>> open(Files& files, SaverOptions options);

  // Both phases. The first error of any rank.
  absl::Status save(const FakeState& state, Step step, FakeCut cut = FakeCut::kEven);
  absl::Status prepare(const FakeState& state, const TrainingPosition& position, FakeCut cut);
  absl::Status prepare_partial(const FakeState& state, const TrainingPosition& position,
                               const FakePartial& partial, FakeCut cut = FakeCut::kEven);
  absl::Status save_partial(const FakeState& state, Step step, const FakePartial& partial,
                            FakeCut cut = FakeCut::kEven);
  absl::Status publish(Step step);
  CheckpointSaver& rank(size_t index) { return *savers_[index]; }

 private:
  absl::Status begin_all(const FakeState& state, const TrainingPosition& position, FakeCut cut,
                         const std::set<std::string>& unsaved, const PartialSave& partial);

  std::vector<std::unique_ptr<CheckpointSaver>> savers_;
};

// A folder of its own, removed at the end: under `preferred` if that exists, else $TMPDIR or /tmp.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& preferred = "");
  ~ScratchFolder();
  const std::string& path() const { return path_; }
  std::string at(const std::string& name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

}  // namespace evermoe
