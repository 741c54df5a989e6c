// When to ask again for what has not come.
#pragma once

#include <algorithm>

namespace evermoe {

// After one silent wait, then after two more, four, and so on: a message that was lost is missed
// for a moment only, and one that takes long on a slow line is not followed by ever more of its
// kind.
class Repeats {
 public:
  // A wait has passed in silence. Whether to ask again now.
  bool is_due() {
    if (++silent_waits_ < pause_) return false;
    silent_waits_ = 0;
    pause_ = std::min(2 * pause_, kPauseMax);
    return true;
  }
  // Something has come: the silence begins anew.
  void on_arrival() { silent_waits_ = 0; }

 private:
  static constexpr int kPauseMax = 32;
  int silent_waits_ = 0;
  int pause_ = 1;  // in waits
};

}  // namespace evermoe
