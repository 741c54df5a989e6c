// Whether the job moves: a job of which nothing is heard for too long stands still though all its
// workers live. Then a view is opened to see who moves (a probe). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "control/controller/controller_interface.h"
#include "control/controller/loss_limits.h"
#include "control/controller/role_table.h"
#include "control/controller/step_pace.h"
#include "parallel/topology.h"

namespace evermoe {

struct StandstillDecision {
  enum class Kind {
    kWait,
    kProbe,    // open a view to see who moves
    kGoBack,   // all, to the newest window in memory, in the next view
    kRestart,  // all, from a durable checkpoint, in the next view
    kReplace,  // who stands still
  };
  Kind kind = Kind::kWait;
  std::string why = {};
  std::vector<Rank> still = {};  // of kReplace
};

// What the decision depends on; all of it outlives it.
struct StandstillState {
  const Topology& topology;
  const RoleTable& roles;
  View view;
  const JobProgress& progress;
  bool is_loading = false;  // somebody still gathers its state
};

class StandstillWatch {
 public:
  // `options` outlive it.
  explicit StandstillWatch(const ControllerOptions& options)
      : options_(options), pace_(options.medians_max) {}

  void begin(absl::Duration now) { moved_ = now; }
  void on_commit(absl::Duration now);  // the first of its number, in the open view
  void on_milestone(absl::Duration now);
  void on_stop();  // a view opens
  void on_plan(absl::Duration now);
  // Nobody is seen: whether the job stands still shows afterwards. A probe begins anew.
  void on_nobody_in_sight(absl::Duration now);

  // When the open view stands still, or its probe is over; `newest`: the commit that is the last
  // one, `is_loading`: somebody still gathers its state.
  absl::Duration deadline(Commit newest, bool is_loading) const;
  // REQUIRES: the deadline is over.
  StandstillDecision on_deadline(absl::Duration now, const StandstillState& job);

  // The next view is a probe.
  void probe() { is_probing_ = true; }
  bool is_probe() const { return probe_due_.has_value(); }  // the open view
  void end_probe();
  // All moved in the probe, so they may only be slow: everything may take twice as long until the
  // next step has been measured, at most kPatienceMax times.
  void on_all_moved() { ++doublings_; }
  static constexpr int64_t kPatienceMax = 64;
  // All go back in memory so often at one place, with twice the patience each time, before a
  // durable checkpoint is taken: a network that is out for a while does not make copies worthless.
  static constexpr int kBackInMemoryMax = 3;

  // The deadline is over, and whoever is waited for got no processor for so much of the time since
  // period() began: it is granted once more, at most kStallFactorMax times what it had. False: it
  // had its time.
  bool grant(absl::Duration starved, Commit newest, bool is_loading);
  // A number that grows whenever the time begins anew for which one is starved.
  int64_t period() const { return period_; }

  absl::Duration moved() const { return moved_; }
  absl::Duration median_step() const { return pace_.median(); }
  absl::Duration mean_step() const { return pace_.mean(); }

 private:
  bool grant_most_starved(const std::vector<Rank>& waited_for, const StandstillState& job);
  bool does_more_than_steps(Commit newest) const;
  absl::Duration limit(Commit newest, bool is_loading) const;
  absl::Duration probe_time() const { return std::max(options_.probe_min, pace_.median()); }
  void begin_period(absl::Duration now);

  const ControllerOptions& options_;
  StepPace pace_;
  absl::Duration moved_;  // when the newest commit or milestone came, or the newest plan went out
  bool was_commit_ = false;  // that was a commit
  bool is_probing_ = false;
  int doublings_ = 0;
  std::optional<absl::Duration> probe_due_;
  int64_t period_ = 0;
  absl::Duration granted_;              // since it moved, or since the newest plan
  std::optional<Commit> went_back_at_;  // the newest commit when all went back in memory
  int went_back_ = 0;                   // so many times there
};

// Who hangs, in a probe: who does not move. In a stage that moves somebody waits for another stage,
// and enters the view at once. Inside the stage of one that hangs the others wait for it, and say
// so; if all of them say so, nobody can be told from them.
std::vector<Rank> who_stands_still(const Topology& topology, const RoleTable& roles, View view);

}  // namespace evermoe
