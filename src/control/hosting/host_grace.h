// A host that has just taken a term has its time to begin before another one, which sees nobody
// listen yet, takes the job from it. Pure.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace evermoe {

class HostGrace {
 public:
  // A loaded machine may take seconds to start a controller, which waits for the former one's
  // address.
  static constexpr absl::Duration kBeginMax = absl::Seconds(10);

  // `met`: the newest term when the node came, 0 for none. Its host had its time before.
  explicit HostGrace(int64_t met) : newest_(met) {}

  // The newest term is this one now.
  void note(absl::Duration now, int64_t term) {
    if (term <= newest_) return;
    newest_ = term;
    ends_ = now + kBeginMax;
  }
  bool is_over(absl::Duration now) const { return now >= ends_; }

 private:
  int64_t newest_;
  absl::Duration ends_ = -absl::InfiniteDuration();
};

}  // namespace evermoe
