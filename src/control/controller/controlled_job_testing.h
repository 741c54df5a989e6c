// The language of the controller core's tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/controller/controller_core.h"

namespace evermoe {

// A job of 2 stages x 2 lanes in invented time. Its workers come up when they are started, answer
// the controller's orders and give signs of life, except for what the test says:
//
//   job.begins().commits(1, 20).saves(20).worker(2).dies("killed by signal 9 (Killed)");
//   EXPECT_EQ(job.did(), "start 1.0, restart all in view 2");
class ControlledJob {
  struct Member {
    View since, epoch, entered;
    Node node;
    Commit newest{-1};
    Step base{-1};
    bool lives = false, has_joined = false, comes_up = true;
    std::string arithmetic;
    bool is_stopped = false, hangs = false, is_broken = false, restores_unheard = false;
    double starved_share = 0;
    double slow_by = 1;
    std::vector<StepTime> step_times;  // not told yet
    std::vector<LinkTime> link_times;  // likewise
    absl::Duration starved;
  };

 public:
  static constexpr int kWorkers = 4;
  static constexpr absl::Duration kStepTime = absl::Milliseconds(50);  // that a worker computes

  // The machines of `unfit` are not fit to play a role; those that are `late` are not there yet.
  explicit ControlledJob(ControllerOptions options, const std::set<int32_t>& unfit = {},
                         const std::set<int32_t>& late = {})
      : topology_({2, 2}, 2), core_(topology_, options, now_) {
    for (int32_t node = 0; node < options.nodes + options.spares; ++node) {
      if (late.contains(node)) continue;
      AgentJoined joined{Node(node)};
      if (unfit.contains(node)) joined.complaints = {"memory: 1 MB available, needed: 2 MB"};
      feed(joined);
      agents_.insert(Node(node));
    }
  }
  // Without protection, as `evermoe run` sets it up.
  static ControllerOptions unprotected() {
    ControllerOptions options;
    options.strategy = strategy_of(StrategyKind::kNone);
    options.restarts_max = 3;
    options.backoff = absl::Milliseconds(200);
    options.patience = 10;
    options.steps = Step(60);
    options.evaluate_every_steps = options.checkpoint_every_steps = 20;
    return options;
  }

  class Worker {
   public:
    Worker(ControlledJob& job, int rank) : job_(job), rank_(rank) {}
    ControlledJob& dies(const std::string& how = "killed by signal 9 (Killed)") {
      return ends({.how = how});
    }
    ControlledJob& refuses(const std::string& why) { return ends({.how = why, .bad_input = true}); }
    ControlledJob& diverges() { return ends({.how = "training diverged", .is_hopeless = true}); }
    ControlledJob& leaves() {
      return ends({.how = "ended before its work was done", .is_clean = true});
    }
    // Gives no sign of life and answers nothing any more.
    ControlledJob& stops() { return member().is_stopped = true, job_; }
    // Gives signs of life, but never enters another view.
    ControlledJob& hangs() { return member().hangs = true, job_; }
    // Gets no processor for so much of the time.
    ControlledJob& is_starved(double share) { return member().starved_share = share, job_; }
    // From now on it computes so many times as long as others, until another process has the role.
    ControlledJob& is_slow(double factor) { return member().slow_by = factor, job_; }
    // It tells of it with its next sign of life.
    ControlledJob& measures(const LinkTime& time) {
      return member().link_times.push_back(time), job_;
    }
    // From now on no process of the role comes up.
    ControlledJob& never_comes_up() { return member().comes_up = false, job_; }
    // It never says that it has its state: its line was broken then.
    ControlledJob& restores_unheard() { return member().restores_unheard = true, job_; }
    ControlledJob& computes_with(const std::string& arithmetic) {
      return member().arithmetic = arithmetic, job_;
    }
    // Who is to take the role has what it keeps of its snapshots.
    ControlledJob& gives_copies() { return say(CopiesGiven{job_.core_.view(), Rank(rank_)}); }
    // It has given its whole state away, and does nothing more.
    ControlledJob& hands_over(int64_t step) {
      return say(HandedOver{job_.core_.view(), Rank(rank_), Step(step), 1'000'000});
    }
    ControlledJob& cannot_leave(CannotLeave::Why why) {
      return say(CannotLeave{job_.core_.view(), Rank(rank_), why});
    }
    // It has made so many, by its first commit in the present view.
    ControlledJob& tells_connections(int64_t made) {
      return say(Connected{job_.core_.view(), Rank(rank_), made});
    }
    ControlledJob& finishes(int64_t step) { return say(Finished{Rank(rank_), Step(step)}); }
    ControlledJob& accuses(int other) {
      Trouble trouble{
          .view = job_.core_.view(), .stage_epoch = member().epoch, .rank = Rank(rank_)};
      trouble.accused = Rank(other);
      trouble.what = "peer lost";
      return say(trouble);
    }
    // Its agent is back on a new line, and it has lived on.
    ControlledJob& is_back() {
      return job_.feed(MemberJoined{.rank = Rank(rank_),
                                    .since = member().since,
                                    .node = member().node,
                                    .has_finished = true,
                                    .newest = member().newest});
    }
    // Had to leave its step; nobody has died.
    ControlledJob& breaks_off() {
      member().is_broken = true;
      return say(Trouble{.view = job_.core_.view(),
                         .stage_epoch = member().epoch,
                         .rank = Rank(rank_),
                         .inside_stage = true,
                         .accused = std::nullopt,
                         .what = "connection cut"});
    }

   private:
    friend class ControlledJob;
    Member& member() const { return job_.members_[static_cast<size_t>(rank_)]; }
    ControlledJob& say(MemberMessage message) {
      return job_.feed(MemberSaid{Rank(rank_), member().since, std::move(message)});
    }
    ControlledJob& ends(WorkerEnded ended) {
      ended.rank = Rank(rank_);
      ended.since = member().since;
      member().lives = false;
      return job_.feed(ended);
    }
    ControlledJob& job_;
    const int rank_;
  };
  Worker worker(int rank) { return Worker(*this, rank); }

  // All workers have come up and the first view is open.
  ControlledJob& begins() { return wait(0.1); }
  ControlledJob& commits(int64_t first, int64_t last, double seconds_each = 0.1) {
    for (int64_t step = first; step <= last; ++step) {
      wait(seconds_each);
      commit(verdict_commit(Step(step)));
    }
    return *this;
  }
  ControlledJob& evaluates(int64_t step) { return commit(evaluation_commit(Step(step))); }
  ControlledJob& evaluates(int64_t step, int64_t batches, double seconds_each) {
    for (int64_t batch = 0; batch < batches; ++batch)
      wait(seconds_each).commit(evaluation_commit(Step(step), batch));
    return *this;
  }
  // The checkpoint that the next restart begins with.
  ControlledJob& saves(int64_t step) {
    durable_ = Step(step);
    return *this;
  }
  ControlledJob& all_finish(int64_t step) {
    for (int rank = 0; rank < kWorkers; ++rank) worker(rank).finishes(step);
    return *this;
  }
  ControlledJob& loses_node(int32_t node) {
    for (Member& member : members_) member.lives = member.lives && member.node != Node(node);
    agents_.erase(Node(node));
    return feed(AgentLost{Node(node), "its agent is gone"});
  }
  // Its workers live on.
  ControlledJob& loses_line_to(int32_t node) {
    agents_.erase(Node(node));
    return feed(AgentLost{Node(node), "it has closed the connection"});
  }
  // Of all processes that are started on it.
  ControlledJob& node_computes_with(int32_t node, const std::string& arithmetic) {
    arithmetic_[Node(node)] = arithmetic;
    return *this;
  }
  // Says so when it attaches, before it plays a role.
  ControlledJob& node_joins_with(int32_t node, const std::string& arithmetic) {
    agents_.insert(Node(node));
    return node_computes_with(node, arithmetic).feed(AgentJoined{Node(node), arithmetic});
  }
  // Its machine was measured anew.
  ControlledJob& node_is_checked(int32_t node, const std::vector<std::string>& complaints) {
    return feed(NodeChecked{Node(node), complaints});
  }
  ControlledJob& network_is_checked() { return feed(NetworkChecked{}); }
  // Its machine will be taken away soon.
  ControlledJob& node_leaves(int32_t node) { return feed(NodeLeaving{Node(node)}); }
  // So many standbys wait there.
  ControlledJob& node_keeps(int32_t node, int warming, int warm, const std::string& failure = "") {
    return feed(StandbysKept{Node(node), warming, warm, failure});
  }
  // From now on no standby says that it waits for a role.
  ControlledJob& joiners_never_come() { return joiners_come_ = false, *this; }
  // The newest process of the role was one of them.
  ControlledJob& standby_takes(int rank) {
    const Member& member = members_[static_cast<size_t>(rank)];
    return feed(StandbyPromoted{Rank(rank), member.since, member.node});
  }
  // Somebody wants these roles elsewhere, on `to` unless that is negative.
  ControlledJob& wants(const std::vector<int>& roles, int32_t to = -1) {
    MoveWanted wish;
    for (const int rank : roles) {
      wish.roles.push_back(Rank(rank));
      if (to >= 0) wish.to.push_back(Node(to));
    }
    return feed(wish);
  }
  // Each on its own node.
  ControlledJob& wants_places(const std::map<int, int>& node_of_rank) {
    MoveWanted wish;
    for (const auto& [rank, node] : node_of_rank) {
      wish.roles.push_back(Rank(rank));
      wish.to.push_back(Node(node));
    }
    return feed(wish);
  }
  ControlledJob& wants_without(int32_t node) { return feed(MoveWanted{.drained = Node(node)}); }
  // These roles, which are to move, give away their copies and then their states.
  ControlledJob& hand_over(const std::vector<int>& roles) {
    for (const int rank : roles) worker(rank).gives_copies();
    wait(0.1);
    const int64_t far = step_of(core_.newest()).value + 10;
    for (const int rank : roles) worker(rank).hands_over(far);
    return *this;
  }
  // A process that this controller has not started, with states of the run that began in this view,
  // up to step 8 and on these lanes.
  ControlledJob& stranger_comes(int rank, int32_t node, View run, MembershipHistory lanes = {}) {
    return feed(MemberJoined{.rank = Rank(rank),
                             .since = View(1),
                             .node = Node(node),
                             .newest_view = run,
                             .is_open = true,
                             .stage_epoch = run,
                             .newest = verdict_commit(Step(8)),
                             .run = run,
                             .lanes = std::move(lanes)});
  }
  ControlledJob& node_comes(int32_t node) {
    agents_.insert(Node(node));
    return feed(AgentJoined{Node(node)});
  }
  // Nobody says whether the job is still its host's until it answers.
  ControlledJob& host_is_silent() { return has_host_ = false, *this; }
  ControlledJob& host_answers(int64_t losses) { return feed(TermHeld{losses}); }
  // From now on the timers of the agents are so much late.
  ControlledJob& timers_are_late(double seconds) {
    late_ = absl::Seconds(seconds);
    return *this;
  }
  ControlledJob& wait(double seconds) {
    const absl::Duration until = now_ + absl::Seconds(seconds);
    while (now_ < until && !end_) {
      const absl::Duration before = std::exchange(
          now_, std::min({until, now_ + absl::Milliseconds(250),
                          std::max(now_ + absl::Milliseconds(1), core_.next_deadline())}));
      for (Member& member : members_) member.starved += member.starved_share * (now_ - before);
      for (int rank = 0; rank < kWorkers; ++rank) live_on(rank);
      for (const Node node : agents_) feed(AgentAlive{node, late_, starved_on(node)});
      feed(TimePassed{});
    }
    return *this;
  }

  // What the controller did since the last call: starts, kills, plans and the end.
  std::string did() { return absl::StrJoin(std::exchange(did_, {}), ", "); }
  std::string said() const { return absl::StrJoin(said_, "\n"); }
  const EndJob& end() const { return *end_; }
  bool has_ended() const { return end_.has_value(); }
  const RecoveryRecord& recovery() const { return core_.recoveries().back(); }
  const ControllerCore& core() const { return core_; }
  const StopOrder& newest_stop() const { return newest_stop_; }  // that worker 0 was given
  double now() const { return absl::ToDoubleSeconds(now_); }

 private:
  ControlledJob& commit(Commit commit) {
    for (int rank = 0; rank < kWorkers; ++rank) {
      Member& member = members_[static_cast<size_t>(rank)];
      if (!member.has_joined) continue;
      member.newest = commit;
      if (commit == verdict_commit(step_of(commit)))
        member.step_times.push_back({step_of(commit), member.slow_by * kStepTime, 1});
      worker(rank).say(Progress{core_.view(), Rank(rank), commit});
    }
    return *this;
  }

  std::vector<StarvedWorker> starved_on(Node node) const {
    std::vector<StarvedWorker> starved;
    for (int32_t rank = 0; rank < kWorkers; ++rank) {
      const Member& member = members_[static_cast<size_t>(rank)];
      if (member.lives && member.node == node)
        starved.push_back({Rank(rank), member.since, member.starved});
    }
    return starved;
  }
  void live_on(int rank) {
    Member& member = members_[static_cast<size_t>(rank)];
    if (!member.lives || member.is_stopped || !member.comes_up) return;
    if (!member.has_joined) {
      member.has_joined = true;
      MemberJoined joined{.rank = Rank(rank), .since = member.since, .node = member.node};
      joined.address = absl::StrCat("address ", rank);
      joined.arithmetic =
          arithmetic_.contains(member.node) ? arithmetic_[member.node] : member.arithmetic;
      feed(joined);
    }
    if (!member.hangs) member.entered = core_.view();
    feed(MemberAlive{Rank(rank), member.since, member.entered, false,
                     std::exchange(member.step_times, {}), std::exchange(member.link_times, {})});
  }

  ControlledJob& feed(const ControllerEvent& event) {
    if (end_) return *this;
    for (const ControllerAction& action : core_.on(now_, event)) {
      std::visit([this](const auto& one) { on(one); }, action);
    }
    return *this;
  }
  std::string name(Rank rank) const { return topology_.name_of(rank); }

  void on(const LanesChanged& change) {
    if (change.step >= Step(0))
      did_.push_back(absl::StrCat("lanes ", absl::StrJoin(change.lanes, " "), " from step ",
                                  change.step.value, " on: ", change.cause));
  }
  void on(const CheckNetwork&) { did_.emplace_back("check network"); }
  void on(const StartWorker& start) {
    did_.push_back(
        absl::StrCat("start ", name(start.rank),
                     start.node == Node(0) ? "" : absl::StrCat(" on ", start.node.value)));
    Member fresh{.since = start.since, .node = start.node, .lives = true};
    Member& member = members_[static_cast<size_t>(start.rank.value)];
    fresh.comes_up = member.comes_up;
    fresh.starved_share = member.starved_share;
    fresh.restores_unheard = member.restores_unheard;
    member = fresh;
  }
  void on(const KillWorker& kill) {
    did_.push_back(kill.becomes_standby ? name(kill.rank) + " stands by"
                                        : "kill " + name(kill.rank));
    members_[static_cast<size_t>(kill.rank.value)].lives = false;
  }
  void on(const SendOrder& order) {
    Member& member = members_[static_cast<size_t>(order.rank.value)];
    if (!member.lives || member.is_stopped) return;
    std::visit([&](const auto& message) { obey(order.rank, member, message); }, order.message);
  }
  void on(const OpenView& send) {
    for (int32_t r = 0; r < kWorkers; ++r) {
      Member& member = members_[static_cast<size_t>(r)];
      if (member.lives && !member.is_stopped) obey(Rank(r), member, send.plan);
    }
  }
  void obey(Rank rank, const Member& member, const StopOrder& stop) {
    if (rank == Rank(0)) newest_stop_ = stop;
    Report report{.view = stop.view,
                  .rank = rank,
                  .stage_epoch = member.epoch,
                  .is_broken = member.is_broken};
    report.newest = member.newest;
    report.base = member.base;
    feed(MemberSaid{rank, member.since, report});
  }
  void obey(Rank rank, Member& member, const Plan& plan) {
    if (rank == Rank(0))
      did_.push_back(absl::StrCat(plan.restart_all               ? "restart all in view "
                                  : plan.rolled_back.size() == 2 ? "all go back in view "
                                                                 : "go on in view ",
                                  plan.view.value));
    const int stage = topology_.role_of(rank).stage;
    const bool goes_back = plan.restart_all || std::ranges::count(plan.rolled_back, stage) > 0;
    if (!goes_back) return;
    member.epoch = plan.view;
    member.is_broken = false;
    if (plan.restart_all) {
      member.base = durable_;
      member.newest = verdict_commit(durable_);
    }
    if (member.restores_unheard) return;
    Milestone restored{plan.view, rank, Milestone::Kind::kRestored};
    restored.step = step_of(member.newest);
    feed(MemberSaid{rank, member.since, restored});
  }
  void obey(Rank rank, const Member&, const LeaveOrder& leave) {
    did_.push_back(
        leave.is_off
            ? absl::StrCat(name(rank), " stays")
            : absl::StrCat(name(rank), leave.stop_at < Step(0)
                                           ? " copies to " + leave.joiner.address
                                           : absl::StrCat(" stops at ", leave.stop_at.value)));
  }
  void obey(Rank rank, const Member&, const ReleaseOrder&) {
    if (rank == Rank(0)) did_.push_back("release");
  }
  void on(const EndJob& end) {
    did_.push_back(end.ok ? "end" : end.bad_input ? "refuse" : "fail");
    end_ = end;
  }
  void on(const DismissNode& dismiss) {
    did_.push_back(absl::StrCat("dismiss ", dismiss.node.value));
    agents_.erase(dismiss.node);
  }
  void on(const DrainJob&) { did_.push_back("drain"); }
  void on(const KeepStandbys& order) {
    did_.push_back(absl::StrCat("keep ", order.count, " on ", order.node.value));
  }
  // Standbys that are asked to wait for a role are there at once, unless none does.
  void on(const JoinerWanted& wanted) {
    did_.push_back(absl::StrCat(wanted.node.value, wanted.is_off ? " forgets " : " awaits ",
                                name(wanted.rank)));
    const std::string address = absl::StrCat("joiner on ", wanted.node.value);
    if (!wanted.is_off && joiners_come_)
      feed(JoinerReady{wanted.node, wanted.rank, {address, wanted.next}});
  }
  void on(const ConfirmTerm& question) {
    if (has_host_) return void(feed(TermHeld{question.losses}));
    did_.push_back(absl::StrCat("ask the host after loss ", question.losses));
  }
  void on(const MoveAnswer& answer) {
    did_.push_back(absl::StrCat(answer.accepted ? "accepted: " : "refused: ", answer.reason));
  }
  void on(const StragglerFound& found) {
    did_.push_back(absl::StrCat(name(found.rank), found.is_over ? " is fast on " : " is slow on ",
                                found.node.value));
  }
  void on(const SlowLinkFound& found) {
    did_.push_back(absl::StrCat(found.from.value, "-", found.to.value,
                                found.is_over ? " is fast" : " is slow"));
  }
  void on(const JobEvent& tell) { said_.push_back(tell.text); }

  absl::Duration now_ = absl::Seconds(1000);
  const Topology topology_;
  std::vector<Member> members_{kWorkers};
  std::set<Node> agents_;  // that give signs of life
  absl::Duration late_;
  bool joiners_come_ = true;
  bool has_host_ = true;
  std::map<Node, std::string> arithmetic_;
  Step durable_;
  std::vector<std::string> did_, said_;
  StopOrder newest_stop_;
  std::optional<EndJob> end_;
  ControllerCore core_;
};

}  // namespace evermoe
