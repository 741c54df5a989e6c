// The durable store of a simulated job: survives every process. It can be full for a while, for one
// rank or for all; what is written then is not there, and what was there stays.
//
// Threads: one at a time, as in a simulated job.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/error.h"
#include "base/ids.h"
#include "sim/partial_files.h"

namespace evermoe {

class SimulatedDisk {
 public:
  // What it needs of the simulation that it is in.
  struct Surroundings {
    std::function<absl::Duration()> now = [] { return absl::ZeroDuration(); };
    // The calling thread stands still for so long.
    std::function<void(absl::Duration)> pause = [](absl::Duration) {};
  };
  SimulatedDisk() = default;
  explicit SimulatedDisk(Surroundings surroundings) : around_(std::move(surroundings)) {}

  // NoCapacity if it is full.
  absl::Status write(Step step, Rank rank, std::vector<std::byte> state) {
    if (is_full(rank)) {
      marks_.insert("save failed");
      refused_.insert(step);
      return NoCapacity("the simulated disk is full");
    }
    if (refused_.contains(step)) marks_.insert("save repeated after it failed");
    files_[step][rank] = std::move(state);
    return absl::OkStatus();
  }
  bool is_written_by_all(Step step, int world_size) const {
    const auto files = files_.find(step);
    return files != files_.end() && std::ssize(files->second) == world_size;
  }
  // The first rank makes a checkpoint of what `world_size` ranks have written, if there is no newer
  // one. NoCapacity if it is full; NotFound if not all have written it, which can only be where
  // something was refused.
  absl::Status publish(Step step, int world_size) {
    if (step <= published_) return absl::OkStatus();
    if (!is_written_by_all(step, world_size)) {
      CHECK(!refused_.empty()) << "not all have written " << step;
      return NotFound("not all have written it");
    }
    if (is_full(Rank(0))) {
      marks_.insert("publishing failed");
      return NoCapacity("the simulated disk is full");
    }
    published_ = step;
    return absl::OkStatus();
  }
  // The newest step that is published; Step(-1).
  Step newest() {
    const auto newer = files_.upper_bound(published_);
    const auto is_refused = [&](const auto& at) { return refused_.contains(at.first); };
    if (std::any_of(newer, files_.end(), is_refused))
      marks_.insert("checkpoint with a failed save skipped");
    if (newer != files_.end()) marks_.insert("checkpoint that nobody published skipped");
    return published_;
  }
  // Null if it has not been written or is not kept any more.
  const std::vector<std::byte>* read(Step step, Rank rank) {
    marks_.insert("back from disk");
    return find(step, rank);
  }
  const std::vector<std::byte>* find(Step step, Rank rank) const {
    const auto files = files_.find(step);
    if (files == files_.end() || !files->second.contains(rank)) return nullptr;
    return &files->second.at(rank);
  }
  // Retention that keeps nothing but what a job must have.
  void remove_before(Step step) { files_.erase(files_.begin(), files_.lower_bound(step)); }

  // In this view everybody goes back to the state at `step`, and will write newer ones again, with
  // other bits.
  void restart(View view, Step step) {
    files_.erase(files_.upper_bound(step), files_.end());
    published_ = std::min(published_, step);
    partial_.begin_restart(view, step);
  }
  // Of checkpoints with a few experts, each rank's file of which refers to older ones.
  PartialFiles& partial() { return partial_; }
  const PartialFiles& partial() const { return partial_; }

  // ---- faults
  // For that rank, or for all if it is negative.
  void fill(Rank rank, absl::Duration time) {
    absl::Duration& until = full_until_[rank];
    until = std::max(until, around_.now() + time);
  }
  bool is_full(Rank rank) const { return is_full_for(rank) || is_full_for(Rank(-1)); }
  // The calling thread stands still: whoever could not save, before it tries again.
  void rest(absl::Duration time = absl::Milliseconds(5)) const { around_.pause(time); }

  const std::set<std::string>& marks() const { return marks_; }  // rare paths that were taken
  void mark(const char* path) { marks_.insert(path); }

 private:
  bool is_full_for(Rank rank) const {
    const auto found = full_until_.find(rank);
    return found != full_until_.end() && around_.now() < found->second;
  }

  const Surroundings around_;
  std::map<Step, std::map<Rank, std::vector<std::byte>>> files_;
  Step published_{-1};
  PartialFiles partial_;
  std::map<Rank, absl::Duration> full_until_;
  std::set<Step> refused_;  // steps of which a save has failed
  std::set<std::string> marks_;
};

}  // namespace evermoe
