// Until a controller knows whom it has: what the beginning of a job, or a controller that takes
// over, waits for before roles are given, and how long. Pure.
//
//   machines   of a job that begins: as many as it asks for, and as many fit ones
//   members    of a job that is taken over: all roles in one open view, or nobody else who may come
//   network    of a job that begins: whether its machines reach each other
//
// None of it is waited for without end: a job begins on what is there, except that it ends where
// enough machines have come and too few of them are fit.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/controller/role_placement.h"
#include "control/controller/role_table.h"

namespace evermoe {

struct BeginningDecision {
  enum class Kind {
    kWait,
    kCheckNetwork,  // and wait
    kRefuse,        // the job has to end
    kGoOn,          // in the open view that all members are in
    kOpenView,
  };
  Kind kind = Kind::kWait;
  std::string why;   // of kRefuse and kOpenView
  std::string news;  // of a wait, for people, once
};

// Threads: one at a time.
class JobBeginning {
 public:
  // `options` outlive it.
  JobBeginning(const ControllerOptions& options, absl::Duration now);

  // The view of which members have told, number 0: none.
  struct AdoptedView {
    View number;
    bool is_open = false;
  };
  // REQUIRES: it is not over. It is after kGoOn and kOpenView.
  BeginningDecision decide(absl::Duration now, const RoleTable& roles, const NodeTable& nodes,
                           AdoptedView view);
  bool is_over() const { return is_over_; }
  // Until when nodes of a job that is taken over may still be calling the former controller; it has
  // passed where a job begins.
  absl::Duration others_until() const {
    return options_.takes_over ? find_ends_ : -absl::InfiniteDuration();
  }
  // When to decide again, if nothing is heard before; infinite if it is over.
  absl::Duration deadline(const NodeTable& nodes, AdoptedView view) const;

  void on_network_checked() { is_network_checked_ = true; }
  // Somebody misses somebody else: the adopted view does not go on.
  void on_trouble() { has_heard_trouble_ = true; }
  void on_commit(absl::Duration now) { moved_ = now; }

 private:
  using Kind = BeginningDecision::Kind;

  std::optional<BeginningDecision> wait_for_nodes(absl::Duration now, const NodeTable& nodes);
  std::optional<BeginningDecision> wait_for_fit_nodes(absl::Duration now, const NodeTable& nodes);
  std::optional<BeginningDecision> wait_for_network(absl::Duration now);
  absl::Duration members_deadline(const NodeTable& nodes, AdoptedView view) const;

  const ControllerOptions& options_;
  bool is_over_ = false;
  const absl::Duration adoption_ends_;  // unless somebody may still come
  const absl::Duration find_ends_;      // likewise, while more than one node is missing
  const absl::Duration begin_ends_;     // of the wait for the machines that the job needs
  bool is_missing_told_ = false;
  std::optional<absl::Duration> fit_ends_;  // of the wait for machines that are fit
  bool is_network_checked_ = false;
  std::optional<absl::Duration> network_ends_;  // of the wait for that
  absl::Duration moved_;                        // the newest commit, or the beginning
  bool has_heard_trouble_ = false;
};

}  // namespace evermoe
