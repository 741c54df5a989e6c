// The durable store of a simulated job: survives every process.
//
// Threads: one at a time, as in a simulated job.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace evermoe {

class SimulatedDisk {
 public:
  void write(Step step, Rank rank, std::vector<std::byte> state) {
    files_[step][rank] = std::move(state);
  }
  // The newest step that all ranks have written; Step(-1).
  Step newest(int world_size) const {
    for (auto at = files_.rbegin(); at != files_.rend(); ++at) {
      if (std::ssize(at->second) == world_size) return at->first;
    }
    return Step(-1);
  }
  // REQUIRES: it has been written.
  const std::vector<std::byte>& read(Step step, Rank rank) const {
    return files_.at(step).at(rank);
  }
  // Retention that keeps nothing but what a job must have.
  void remove_before(Step step) { files_.erase(files_.begin(), files_.lower_bound(step)); }

 private:
  std::map<Step, std::map<Rank, std::vector<std::byte>>> files_;
};

}  // namespace evermoe
