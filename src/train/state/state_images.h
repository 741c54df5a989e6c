// Copies of this rank's shards in its own memory, as they were at checkpoints: what it restores
// from if others are lost, and what a checkpoint is written from while training goes on.
//
// There is one committed image of an operator at most, one of the checkpoint that is being written,
// and one of a newer checkpoint, which waits until that is done.
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
  // Copies master weights and moments of this rank's shards into images that wait, in the place of
  // those of an older checkpoint.
  void copy(const std::vector<OperatorState*>& states);
  // No image waits any more.
  void drop_waiting();
  // All images that wait are those of the checkpoint under way now. REQUIRES: none was.
  void begin();
  // The images under way take the place of older ones.
  void commit();
  void discard();
  // No image is left of this operator, or of any.
  void drop(const std::string& operator_name) { committed_.erase(operator_name); }
  void clear();

  // Whether there is a committed image whose bytes are those that were copied.
  bool is_good(const std::string& operator_name) const;
  // REQUIRES: is_good().
  void restore(OperatorState& state) const;

  // For the checkpoint under way, of these operators. REQUIRES: each has an image of it.
  std::vector<ShardSource> sources(const std::vector<OperatorState*>& states) const;
  // Of all kinds.
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

  std::shared_ptr<Image> image_of(OperatorState& state);
  void set_aside(Images& images);

  Images committed_, under_way_, waiting_;
  Images spare_;  // replaced ones, to be filled again
};

}  // namespace evermoe
