// One hash of the whole training state, fed block by block.
//
// XXH3-128 over, for every operator in the order of names: the name and a zero byte; flat_size as a
// little-endian int64; the flat bytes of master weights, exp_avg and exp_avg_sq in the state type;
// the flat bytes of the compute weights in the compute type. Then, as little-endian 64-bit numbers:
// step, samples, updates_applied, loss_scale (IEEE 754), loss_scale_good_steps.
// Topology, file layout, validation loss and texts do not enter.
#pragma once

#include <span>
#include <string>

#include "base/fingerprint.h"
#include "checkpoint/format/training_position.h"

namespace evermoe {

class StateDigest {
 public:
  // REQUIRES: names come in increasing order.
  void begin_operator(const std::string& name, int64_t flat_size);
  // The next bytes of the operator, in the order above.
  void update(std::span<const std::byte> bytes) { stream_.update(bytes); }
  Fingerprint finish(const TrainingPosition& position);

 private:
  void number(uint64_t value);

  FingerprintStream stream_;
  std::string previous_;
};

}  // namespace evermoe
