// What a controller knows of who trains: the history of its newest plan, and how far the job has
// come in it. Tells of every change once, when it holds for good.
//
// Pure. Threads: one at a time.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/membership.h"
#include "recovery/protocol/messages.h"

namespace evermoe {

class MembershipBook {
 public:
  // `topology` outlives it.
  explicit MembershipBook(const Topology& topology) : topology_(topology) {}

  // Why the next change will be: a node has come or gone.
  void on_news(std::string news) { news_.insert(std::move(news)); }
  // "node 2 is lost, node 3 is lost"; what a former controller has seen is not known.
  std::string cause() const;
  // What is told of a plan at once.
  struct News {
    // Of the first plan, if the job goes on: who trained from where all had gone on before, as the
    // members that this controller has found have it.
    std::optional<MembershipChange> base;
    std::vector<MembershipChange> changes;
  };
  // Its changes are planned; what it starts anew holds from where the job goes on, Step(-1). Those
  // of the plan before hold whose states its members have reached, though nobody has said so.
  News on_plan(const Plan& plan);
  // The state at this step is committed: changes that hold for good now.
  std::vector<MembershipChange> on_commit(Step step);

  // Who rests, in the newest state or the one that comes.
  const RestingRoles& resting() const { return resting_; }
  // No change is planned that does not hold yet.
  bool is_settled() const { return planned_.empty(); }
  // The newest one that holds; Step(-1): none yet.
  Step newest_change() const { return newest_change_; }
  bool is_known() const { return is_known_; }  // a plan has been made here

 private:
  const Topology& topology_;
  std::set<std::string> news_;
  std::vector<MembershipChange> planned_;
  RestingRoles resting_;
  Step newest_change_{-1};
  bool is_known_ = false;
};

}  // namespace evermoe
