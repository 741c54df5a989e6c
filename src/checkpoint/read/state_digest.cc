#include "checkpoint/read/state_digest.h"

#include <bit>

#include "base/check.h"

namespace evermoe {

void StateDigest::number(uint64_t value) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  stream_.update(bytes);
}

void StateDigest::begin_operator(const std::string& name, int64_t flat_size) {
  CHECK(previous_ < name) << previous_ << " before " << name;
  previous_ = name;
  stream_.update(name + '\0');
  number(static_cast<uint64_t>(flat_size));
}

Fingerprint StateDigest::finish(const TrainingPosition& position) {
  number(static_cast<uint64_t>(position.step.value));
  number(static_cast<uint64_t>(position.samples));
  number(static_cast<uint64_t>(position.updates_applied));
  number(std::bit_cast<uint64_t>(position.loss_scale));
  number(static_cast<uint64_t>(position.loss_scale_good_steps));
  return stream_.finish();
}

}  // namespace evermoe
