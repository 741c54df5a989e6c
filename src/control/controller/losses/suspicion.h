// What live members say of others whom nobody has seen die. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/ids.h"

namespace evermoe {

// The complaints of one view. A death, if it is one, is about to be reported by somebody who knows:
// so they are looked at only when they are due.
class Suspicion {
 public:
  Suspicion(absl::Duration due, std::string what) : due_(due), what_(std::move(what)) {}

  // `accused` nullopt: it complains, but of nobody in particular. The newest complaint counts.
  void complain(Rank accuser, std::optional<Rank> accused) {
    blames_.insert_or_assign(accuser, accused);
  }
  absl::Duration due() const { return due_; }
  // More may be said until then. Once.
  void wait_until(absl::Duration due) {
    due_ = due;
    has_waited_ = true;
  }
  void stop_waiting(absl::Duration now) {
    if (has_waited_) due_ = now;
  }
  bool has_waited() const { return has_waited_; }
  // Who blames it; nullopt: nobody.
  std::optional<Rank> accuser_of(Rank accused) const;
  // It complains, or somebody complains of it.
  bool concerns(Rank rank) const;
  const std::string& what() const { return what_; }  // the first complaint
  // Who waits for somebody that waits itself blames the wrong one: the accused that does not
  // complain, else, where all do, the first one; nullopt if nobody is accused.
  std::optional<Rank> accused() const;

 private:
  absl::Duration due_;
  bool has_waited_ = false;
  const std::string what_;
  std::map<Rank, std::optional<Rank>> blames_;  // who blames whom
};

}  // namespace evermoe
