// A member that computes nothing and says what a member says.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "control/wire/control_messages.h"

namespace evermoe {

class ScriptedMember {
 public:
  // `say`: to its agent.
  using Say = std::function<void(ControlMessage)>;
  ScriptedMember(Rank rank, View since, int stage) : rank_(rank), since_(since), stage_(stage) {}

  void obey(const Welcome&, const Say& say);
  void obey(const ControllerMessage& order, const Say& say);
  void beat(const Say& say) const { say(MemberAlive{rank_, since_, entered_}); }
  void commit(Step step, const Say& say);
  // A member of its stage group has gone.
  void leave_step() { is_broken_ = true; }

  Rank rank() const { return rank_; }
  int stage() const { return stage_; }
  View entered() const { return entered_; }
  bool is_in(View view) const { return is_open_ && entered_ == view; }

 private:
  void obey_order(const StopOrder& stop, const Say& say);
  void obey_order(const Plan& plan, const Say& say);
  void obey_order(const ReleaseOrder&, const Say&) {}
  void obey_order(const LeaveOrder&, const Say&) {}

  const Rank rank_;
  const View since_;
  const int stage_;
  View newest_view_, entered_, epoch_;
  bool is_open_ = false, is_broken_ = false;
  Commit newest_{-1};
  Step base_{-1}, window_{-1};
  std::vector<Rank> kept_;  // whose copies it has
};

}  // namespace evermoe
