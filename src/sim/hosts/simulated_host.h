// A host of a simulated job: its controllers, one after the other, and the run that keeps them
// alive as ProtectedRun does (control/launch/protected_run.h): a controller that ends or falls
// silent is replaced at once; a run whose term of the folder has a successor leaves the job, and
// its controller ends with it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/hosting/lanes_history.h"
#include "sim/control_shells.h"

namespace evermoe {

struct SimulatedHostOptions {
  Machine machine;
  std::string address;  // of its controllers
  FolderTerm term;
  ControllerOptions core;  // takes_over is set here
  RelayOptions relay;      // life and term are set here
  absl::Duration silence_max, retry;
  absl::Duration start_max;     // from the start of a process until it works
  absl::Duration farewell_max;  // from the end of the job until what is left is killed
  absl::Duration term_check;    // how often it looks who has the folder
  // What the hosts before it have handed on of who trained.
  std::vector<LanesChanged> lanes;
};

class SimulatedHost final : private StreamEvents {
 public:
  struct Events {
    std::function<void(const std::string&)> tell;  // a line of the story
    std::function<void(const std::string&)> mark;  // a rare path was taken
    std::function<void(const NodeLost&)> on_node_lost;
    std::function<void(const EndJob&)> on_end;  // once
    std::function<void()> on_left;              // likewise
    // To the next host, if there will be one.
    std::function<void(const std::vector<LanesChanged>&)> hand_on;
    // Whether the term is still the newest, as check_term() does.
    std::function<absl::Status()> check_term;
    // Of the folder, as mark_end(), end_of() and end_by_former() do.
    std::function<void(const EndJob&)> mark_end;
    std::function<std::optional<std::string>()> own_end;
    std::function<std::optional<std::string>()> end_by_former;
  };
  SimulatedHost(SimulatedNetwork& time, ControlNetwork& network, const Topology& topology,
                SimulatedHostOptions options, Events events);
  ~SimulatedHost() override;

  const FolderTerm& term() const { return options_.term; }
  Machine machine() const { return options_.machine; }
  // What the controllers have told it, in order.
  std::vector<RecoveryRecord> recoveries() const;
  std::vector<MoveRecord> moves() const;
  const std::vector<StragglerFound>& stragglers() const { return stragglers_; }
  const std::vector<SlowLinkFound>& slow_links() const { return slow_links_; }
  // Who trained, as RunStory has it (control/launch/run_story.h).
  const std::vector<LanesChanged>& lanes() const { return lanes_.changes(); }
  int64_t controllers() const { return controllers_; }
  bool has_controller() const { return controller_ != nullptr; }
  // Its controller leaves the node out, because others do not reach it.
  bool leaves_out(Node node) const {
    return controller_ != nullptr && controller_->relay().is_unreached(node);
  }
  // It acts no more: it has left, or its machine is lost.
  bool has_left() const { return has_left_; }
  // It runs, sees who has the folder, and has a reason to look.
  bool can_look() const {
    return !has_ended_ && !network_.is_stopped(run_) &&
           now() + options_.term_check >= term_check_at_;
  }

  void leave(const std::string& why);

  // Asks its controller, if it is attached to one.
  void want(const MoveWanted& wish);
  void drain();  // likewise

  // ---- faults
  void kill_controller();
  void stop_controller(absl::Duration time);
  // The run stands still, and the controller, too, if `all`; whoever stands still already is left
  // alone.
  void stop(bool all);
  void go_on();
  // It does not see who has the folder for so long.
  void look_away(absl::Duration time);

 private:
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override;
  void on_broken(StreamNumber stream, const std::string& why) noexcept override;

  void start_controller();
  void replace_controller(const std::string& how);
  void end_controller();
  void look();
  void look_after_controller();
  void look_after_call();
  void look_after_term();
  void hear(const Welcome& welcome);
  void hear(const JobEvent& tell) { events_.tell(tell.text); }
  void hear(const NodeLost& lost) { events_.on_node_lost(lost); }
  void hear(const RecoveryNote& note) { notes_[{met_, note.index}] = note.record; }
  void hear(const MoveNote& note) { moves_[{met_, note.index}] = note.record; }
  void hear(const StragglerFound& found) { stragglers_.push_back(found); }
  void hear(const SlowLinkFound& found) { slow_links_.push_back(found); }
  void hear(const LanesChanged& change);
  void hear(const WorkerReport& report);
  void hear(const MoveAnswer& answer);
  void hear(const ConfirmTerm& question);
  void hear(const EndJob& end);
  void end_as(const EndJob& end);
  template <typename Other>
  void hear(const Other&) {}
  void watch(const RelayAction& action);
  void watch_line(const std::string& line);
  absl::Duration now() const { return network_.clock(run_); }
  absl::Duration draw(absl::Duration max);

  SimulatedNetwork& time_;
  ControlNetwork& network_;
  const Topology& topology_;
  const SimulatedHostOptions options_;
  const Events events_;
  ControlProcess run_;
  std::unique_ptr<SimulatedController> controller_;
  std::vector<std::unique_ptr<ControlShell>> ended_;  // until nothing can be on their stacks
  int64_t life_;
  int64_t controllers_ = 0;
  bool has_left_ = false;
  // Of a view: members have been told to stop, but not by which plan to go on.
  bool is_opening_ = false;

  // As ProtectedRun has them.
  StreamNumber call_;
  bool is_attached_ = false;
  int64_t met_ = -1;  // the life of the controller that is attached to
  absl::Duration retry_at_, heard_, next_beat_, term_check_at_;
  absl::Duration looks_away_until_;
  std::optional<ConfirmTerm> term_asked_;                    // and not answered
  std::map<std::pair<int64_t, int>, RecoveryRecord> notes_;  // by life and index
  std::map<std::pair<int64_t, int>, MoveRecord> moves_;      // likewise
  std::vector<StragglerFound> stragglers_;
  std::vector<SlowLinkFound> slow_links_;
  LanesHistory lanes_;
  bool has_ended_ = false;  // the job
};

}  // namespace evermoe
