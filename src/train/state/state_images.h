// Copies of this rank's shards in its own memory, as they were at checkpoints: what it restores
// from if others are lost, and what a checkpoint is written from while training goes on.
//
// There is one committed image of an operator at most, and one of the checkpoint under way.
//
// Threads: one. What sources() returns may be read by another one at any time.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "checkpoint/write/checkpoint_saver.h"
#include "train/state/operator_state.h"

namespace evermoe {

class StateImages {
 public:
  // Copies master weights and moments of this rank's shard into an image under way.
  void copy(OperatorState& state);
  // The images under way take the place of older ones.
  void commit();
  void discard() { under_way_.clear(); }
  // No image is left of this operator, or of any.
  void drop(const std::string& operator_name) { committed_.erase(operator_name); }
  void clear();

  // Whether there is a committed image whose bytes are those that were copied.
  bool is_good(const std::string& operator_name) const;
  // REQUIRES: is_good().
  void restore(OperatorState& state) const;

  // For a checkpoint of these operators. REQUIRES: each has an image under way.
  std::vector<ShardSource> sources(const std::vector<OperatorState*>& states) const;
  // Of both kinds.
  int64_t bytes() const;

 private:
  struct Image {
    std::array<std::vector<std::byte>, kStatePartCount> parts;
    Fingerprint bytes;    // of all parts
    Fingerprint compute;  // of the compute weights of the shard
  };
  using Images = std::map<std::string, std::shared_ptr<Image>>;
  // Memory for another image: of one that nobody uses any more, if there is.
  std::shared_ptr<Image> take_image(const std::string& operator_name);

  Images committed_, under_way_;
  Images spare_;  // replaced ones
};

}  // namespace evermoe
