// Who was to keep copies of which window: holders are chosen anew in every plan, but what was
// captured before is where it was. Pure.
#pragma once

#include <map>
#include <vector>

#include "base/ids.h"

namespace evermoe {

using HoldersOfRanks = std::vector<std::vector<Rank>>;  // by rank

class FormerHolders {
 public:
  // Chosen when `complete` was the newest complete window; -1: there was none. What was chosen at
  // a later window has never come to be: all have gone back.
  void on_chosen(Step complete, HoldersOfRanks holders);
  // Those that were chosen before the window was complete. Empty: nobody was.
  HoldersOfRanks of(Step window) const;

 private:
  // By the newest complete window; no more of them than are needed for the newest and later ones.
  std::map<Step, HoldersOfRanks> chosen_;
};

}  // namespace evermoe
