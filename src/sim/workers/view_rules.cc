#include "sim/workers/view_rules.h"

#include "absl/strings/str_cat.h"
#include "control/wire/control_codec.h"

namespace evermoe {

void ViewRules::note(Rank rank, View view, const std::string& how) {
  violations_.push_back(absl::StrCat("rank ", rank.value, " in view ", view.value, " ", how));
}

void ViewRules::on_entered(int64_t process, Rank rank, View view, const Plan& plan) {
  Entered& entered = entered_[process];
  entered.rank = rank;
  if (view <= entered.view)
    note(rank, view, absl::StrCat("was in view ", entered.view.value, " already"));
  entered.view = view;
  entered.plan = encode({0, SendOrder{Rank(0), View(0), plan}});
  compare(process, view);
}

void ViewRules::on_commit(int64_t process, Rank rank, View view) {
  entered_[process].rank = rank;
  compare(process, view);
}

void ViewRules::compare(int64_t process, View view) {
  const Entered& own = entered_[process];
  for (const auto& [number, other] : entered_) {
    if (number == process || other.view != view || !lives_(number)) continue;
    if (other.rank == own.rank) note(own.rank, view, "is played by two processes");
    if (other.plan != own.plan) note(own.rank, view, "follows another plan than others");
  }
}

}  // namespace evermoe
