// The rules of views, watched from outside: of the processes that live, at most one per role acts
// in a view, all in a view follow one plan, and none returns to an older view. (When nobody is
// left, the next controller counts views from 1 again.)
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "recovery/protocol/messages.h"

namespace evermoe {

class ViewRules {
 public:
  // `lives`: whether a process does, by its id.
  explicit ViewRules(std::function<bool(int64_t)> lives) : lives_(std::move(lives)) {}

  // The process that plays `rank` goes on in `view`; the newest plan that it has is this one.
  void on_entered(int64_t process, Rank rank, View view, const Plan& plan);
  // It plays nothing any more.
  void forget(int64_t process) { entered_.erase(process); }
  // It has committed something in this view.
  void on_commit(int64_t process, Rank rank, View view);

  // One line for each rule that was broken.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Entered {
    Rank rank;
    View view;         // the newest
    std::string plan;  // by which
  };
  void compare(int64_t process, View view);
  void note(Rank rank, View view, const std::string& how);

  const std::function<bool(int64_t)> lives_;
  std::map<int64_t, Entered> entered_;  // by process
  std::vector<std::string> violations_;
};

}  // namespace evermoe
