#include "cluster/controller_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace evermoe {

ControllerCore::ControllerCore(Topology topology, ControllerOptions options, absl::Duration now)
    : topology_(std::move(topology)), options_(options), now_(now),
      players_(static_cast<size_t>(topology_.world_size())), adoption_ends_(now + options.adoption),
      stage_epochs_(static_cast<size_t>(topology_.stages())) {}

std::vector<ControllerAction> ControllerCore::on(absl::Duration now, const ControllerEvent& event) {
  now_ = std::max(now_, now);
  actions_.clear();
  if (has_ended_) return {};
  std::visit([this](const auto& e) { handle(e); }, event);
  if (!has_ended_) check_deadlines();
  if (!has_ended_) reconsider();
  return std::exchange(actions_, {});
}

absl::Duration ControllerCore::next_deadline() const {
  absl::Duration next = is_adopting_ ? adoption_ends_ : absl::InfiniteDuration();
  for (const Player& player : players_) {
    next = std::min(next, player.deadline);
    if (player.phase == Player::Phase::kJoined) next = std::min(next, player.heard + options_.silence_max);
  }
  if (suspicion_) next = std::min(next, suspicion_->due);
  return next;
}

bool ControllerCore::is_present(Rank rank, View since) const {
  const Player& player = players_[static_cast<size_t>(rank.value)];
  return player.phase == Player::Phase::kJoined && player.since == since;
}

bool ControllerCore::all_joined() const {
  return std::all_of(players_.begin(), players_.end(),
                     [](const Player& player) { return player.phase == Player::Phase::kJoined; });
}

RecoveryRecord* ControllerCore::present_recovery() {
  return recoveries_.empty() || recoveries_.back().is_over() ? nullptr : &recoveries_.back();
}

// ---- who plays what

int ControllerCore::workers_on(Node node) const {
  return static_cast<int>(std::count_if(players_.begin(), players_.end(), [&](const Player& player) {
    return player.phase != Player::Phase::kNone && player.node == node;
  }));
}

// The node it was on, if that lives; at the start, blocks of neighbouring ranks per node; else the spare
// or the node with the fewest workers.
Node ControllerCore::node_for(Rank rank) {
  const auto lives = [&](Node node) {
    const auto found = agents_.find(node);
    return found != agents_.end() && found->second;
  };
  const Node home(static_cast<int32_t>(int64_t{rank.value} * options_.nodes / topology_.world_size()));
  if (player(rank).since == View(0) && lives(home)) return home;
  if (player(rank).since != View(0) && lives(player(rank).node)) return player(rank).node;
  std::optional<Node> best;
  for (const auto& [node, is_alive] : agents_) {
    if (!is_alive) continue;
    const auto load = [&](Node n) { return workers_on(n); };
    if (!best || load(node) < load(*best)) best = node;
  }
  return best.value_or(Node(-1));
}

CopyHolders ControllerCore::holders() const {
  const int world = topology_.world_size();
  CopyHolders none;
  none.holders_of.resize(static_cast<size_t>(world));
  const int copies = std::min(options_.copies, world - 1);
  if (!options_.is_protected || copies < 1) return none;
  std::vector<int> nodes, processes;
  for (int r = 0; r < world; ++r) {
    nodes.push_back(players_[static_cast<size_t>(r)].node.value);
    processes.push_back(r);
  }
  const int all_nodes = std::max(options_.nodes + options_.spares, *std::max_element(nodes.begin(), nodes.end()) + 1);
  std::vector<DomainPath> paths(static_cast<size_t>(all_nodes));
  for (int n = 0; options_.racks > 0 && n < all_nodes; ++n) {
    paths[static_cast<size_t>(n)].rack = absl::StrCat(int64_t{n} * options_.racks / all_nodes);
  }
  const FailureDomains domains(paths);
  for (auto level = options_.copy_level; level; level = level == DomainLevel::kNode ? std::nullopt : std::optional(DomainLevel::kNode)) {
    auto chosen = copy_holders(topology_, nodes, domains, {copies, *level});
    if (chosen.ok()) return *std::move(chosen);
  }
  // Too few of them: other processes are better than nothing.
  auto chosen = copy_holders(topology_, processes, FailureDomains::nodes_only(world), {copies, DomainLevel::kNode});
  CHECK(chosen.ok()) << chosen.status();
  chosen->reason = absl::StrCat("copies of every rank at ", copies, copies == 1 ? " other process" : " other processes",
                                ", for there are too few failure domains");
  return *std::move(chosen);
}

void ControllerCore::start_missing() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    Player& missing = player(Rank(r));
    if (missing.phase != Player::Phase::kNone || missing.released) continue;
    const Node node = node_for(Rank(r));
    if (node.value < 0) continue;  // waits for an agent
    missing.node = node;
    missing.since = std::max(view_, View(1));
    missing.phase = Player::Phase::kStarting;
    missing.deadline = now_ + options_.start_max;
    actions_.push_back(StartWorker{node, Rank(r), missing.since});
  }
}

// ---- events

void ControllerCore::handle(const AgentJoined& event) { agents_[event.node] = true; }

void ControllerCore::handle(const AgentLost& event) {
  agents_[event.node] = false;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const Player& player = players_[static_cast<size_t>(r)];
    if (player.phase != Player::Phase::kNone && player.node == event.node) {
      lose(Rank(r), absl::StrCat("node ", event.node.value, " is lost: ", event.why));
    }
  }
}

void ControllerCore::handle(const MemberJoined& event) {
  Player& joined = player(event.rank);
  if (joined.phase == Player::Phase::kJoined && joined.since == event.since) return;
  if (joined.phase == Player::Phase::kStarting && joined.since != event.since) return;  // an old one, about to end
  joined.phase = Player::Phase::kJoined;
  joined.node = event.node;
  joined.since = event.since;
  joined.address = event.address;
  joined.heard = now_;
  joined.deadline = absl::InfiniteDuration();
  joined.finished = event.has_finished;
  joined.report.reset();
  newest_ = std::max(newest_, event.newest);
  View& epoch = stage_epochs_[static_cast<size_t>(topology_.role_of(event.rank).stage)];
  epoch = std::max(epoch, event.stage_epoch);
  if (event.newest_view > view_ || (event.newest_view == view_ && !event.is_open)) {
    is_open_ = false;  // an unfinished view of a former controller: the next one settles it
    view_ = std::max(view_, event.newest_view);
  }
  if (is_adopting_) {
    // All in one open view: nothing has happened but the change of controllers.
    if (event.is_open && event.newest_view == view_) is_open_ = true;
    return;
  }
  if (is_open_) return open_next_view(absl::StrCat("role ", name_of(event.rank), " has joined"));
  actions_.push_back(SendOrder{event.rank, event.since, StopOrder{view_, number_of_recovery()}});
  joined.deadline = now_ + options_.report_max;
}

void ControllerCore::handle(const WorkerEnded& event) {
  Player& ended = player(event.rank);
  if (ended.phase == Player::Phase::kNone || ended.since != event.since) return;
  if (event.bad_input) return end(false, event.how, true);
  if (ended.released && event.is_clean) {
    ended.phase = Player::Phase::kNone;
    return end_if_all_gone();
  }
  lose(event.rank, event.how);
}

void ControllerCore::lose(Rank rank, const std::string& how) {
  Player& lost = player(rank);
  if (lost.phase == Player::Phase::kNone) return;
  lost.phase = Player::Phase::kNone;
  lost.report.reset();
  lost.deadline = absl::InfiniteDuration();
  lost.finished = false;
  if (lost.released) return end_if_all_gone();
  note_loss(rank, how);
  if (++losses_ > options_.losses_max) {
    return end(false, absl::StrCat(losses_, " workers were lost without any progress; the last: ", name_of(rank), ": ", how));
  }
  if (is_open_) open_next_view(absl::StrCat("role ", name_of(rank), " is lost"));
}

// After the release nothing can be lost any more: everything is on disk.
void ControllerCore::end_if_all_gone() {
  const bool all = std::all_of(players_.begin(), players_.end(),
                               [](const Player& player) { return player.phase == Player::Phase::kNone; });
  if (all) end(true, "finished");
}

void ControllerCore::note_loss(Rank rank, const std::string& how) {
  if (present_recovery() == nullptr) {
    recoveries_.emplace_back();
    recoveries_.back().noticed = now_;
    recoveries_.back().step = Step(std::max<int64_t>(newest_.value, 0) / 2);
  }
  RecoveryRecord& record = recoveries_.back();
  record.roles.push_back(name_of(rank));
  record.causes.push_back(absl::StrCat(name_of(rank), ": ", how));
  actions_.push_back(Tell{absl::StrCat("worker ", name_of(rank), " is lost: ", how)});
}

void ControllerCore::handle(const MemberSaid& event) {
  if (!is_present(event.rank, event.since)) return;
  player(event.rank).heard = now_;
  std::visit([this](const auto& message) { hear(message); }, event.message);
}

void ControllerCore::handle(const MemberAlive& event) {
  if (is_present(event.rank, event.since)) player(event.rank).heard = now_;
}

// ---- what members say

void ControllerCore::hear(const Report& report) {
  if (is_open_ || report.view != view_) return;
  player(report.rank).report = report;
  player(report.rank).deadline = absl::InfiniteDuration();
}

void ControllerCore::hear(const Trouble& trouble) {
  const auto stage = static_cast<size_t>(topology_.role_of(trouble.rank).stage);
  if (!is_open_ || trouble.view != view_) return;
  if (trouble.inside_stage && trouble.stage_epoch != stage_epochs_[stage]) return;  // the present view repairs it
  actions_.push_back(Tell{absl::StrCat("worker ", name_of(trouble.rank), " reports: ", trouble.what)});
  if (trouble.copies_unusable) {
    restart_reason_ = absl::StrCat("role ", name_of(trouble.rank), ": ", trouble.what);
    return open_next_view(restart_reason_);
  }
  // Its death, if it is one, is about to be reported by somebody who knows.
  if (!suspicion_) suspicion_ = Suspicion{now_ + options_.grace, trouble.what, {}};
  suspicion_->blames.insert_or_assign(trouble.rank, trouble.accused);
}

// Who waits for somebody that waits itself blames the wrong one.
std::optional<Rank> ControllerCore::accused_of(const Suspicion& suspicion) {
  std::optional<Rank> accused;
  for (const auto& [accuser, blamed] : suspicion.blames) {
    if (!blamed) continue;
    if (!suspicion.blames.contains(*blamed)) return blamed;
    if (!accused) accused = blamed;
  }
  return accused;
}

void ControllerCore::hear(const Milestone& milestone) {
  RecoveryRecord* const record = present_recovery();
  if (record == nullptr || milestone.view != view_) return;
  switch (milestone.kind) {
    case Milestone::Kind::kConnected:
      break;
    case Milestone::Kind::kRestored:
      record->restored = now_;
      note_stage_done(without_state_, milestone.rank, "has a state again");
      for (const std::string& source : milestone.sources) {
        record->sources.push_back(absl::StrCat(name_of(milestone.rank), ": ", source));
      }
      break;
    case Milestone::Kind::kCaughtUp:
      record->caught_up = now_;
      record->recomputed_steps = std::max(record->recomputed_steps, milestone.recomputed_steps);
      note_stage_done(behind_, milestone.rank,
                      absl::StrCat("has caught up: ", record->recomputed_steps, " steps run again",
                                   verified_ == 0 ? "" : absl::StrCat(", with the bits they had on ", verified_, " that lived on")));
      break;
    case Milestone::Kind::kVerified:
      record->verified = now_;
      ++verified_;
      break;
    case Milestone::Kind::kResumed:
      break;
  }
}

// Told once for each stage: there may be thousands of ranks.
void ControllerCore::note_stage_done(std::set<Rank>& waiting, Rank rank, const std::string& what) {
  if (waiting.erase(rank) == 0) return;
  const int stage = topology_.role_of(rank).stage;
  const std::vector<Rank> group = topology_.stage_group(stage);
  if (std::any_of(group.begin(), group.end(), [&](Rank one) { return waiting.contains(one); })) return;
  actions_.push_back(Tell{absl::StrCat("view ", view_.value, ": stage ", stage, " ", what)});
}

int ControllerCore::number_of_recovery() { return present_recovery() == nullptr ? 0 : static_cast<int>(recoveries_.size()); }

void ControllerCore::hear(const Progress& progress) {
  if (progress.newest <= newest_) return;
  newest_ = progress.newest;
  losses_ = 0;
  if (RecoveryRecord* const record = present_recovery(); record != nullptr && is_open_ && progress.view == view_) {
    record->resumed = now_;
  }
}

void ControllerCore::hear(const Finished& finished) { player(finished.rank).finished = true; }

// ---- decisions

void ControllerCore::check_deadlines() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    Player& late = player(Rank(r));
    const bool silent = late.phase == Player::Phase::kJoined && now_ >= late.heard + options_.silence_max;
    if (!silent && now_ < late.deadline) continue;
    const std::string why = silent ? absl::StrCat("hung: no sign of life for ", absl::FormatDuration(options_.silence_max))
                            : late.phase == Player::Phase::kStarting ? "did not come up in time"
                                                                     : "did not report in time";
    actions_.push_back(KillWorker{late.node, Rank(r), late.since, why});
    lose(Rank(r), why);
    if (has_ended_) return;
  }
  if (is_open_ && suspicion_ && now_ >= suspicion_->due) {
    const Suspicion suspicion = *std::exchange(suspicion_, std::nullopt);
    const std::optional<Rank> rank = accused_of(suspicion);
    if (!rank) return open_next_view(suspicion.what);
    const Player& accused = player(*rank);
    actions_.push_back(KillWorker{accused.node, *rank, accused.since, suspicion.what});
    lose(*rank, absl::StrCat("accused: ", suspicion.what));
  }
}

void ControllerCore::open_next_view(const std::string& why) {
  view_ = View(view_.value + 1);
  is_open_ = false;
  suspicion_.reset();
  actions_.push_back(Tell{absl::StrCat("view ", view_.value, ": ", why)});
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    Player& member = player(Rank(r));
    member.report.reset();
    if (member.phase != Player::Phase::kJoined) continue;
    member.deadline = now_ + options_.report_max;
    actions_.push_back(SendOrder{Rank(r), member.since, StopOrder{view_, number_of_recovery()}});
  }
}

void ControllerCore::reconsider() {
  if (is_adopting_) {
    const bool complete = all_joined();
    const bool expects_nobody = !options_.takes_over && static_cast<int>(agents_.size()) >= options_.nodes;
    if (!complete && !expects_nobody && now_ < adoption_ends_) return;
    is_adopting_ = false;
    if (view_ > View(0)) lose_the_absent();
    if (!(complete && is_open_)) open_next_view(view_ == View(0) ? "the job begins" : "a new controller takes over");
  }
  start_missing();
  if (is_open_) return release_if_finished();
  const bool ready = std::all_of(players_.begin(), players_.end(), [](const Player& player) {
    return player.phase == Player::Phase::kJoined && player.report.has_value();
  });
  if (ready) send_plan();
}

// Roles that were lost while no controller looked.
void ControllerCore::lose_the_absent() {
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    if (player(Rank(r)).phase != Player::Phase::kNone) continue;
    note_loss(Rank(r), "gone when the new controller came");
  }
}

void ControllerCore::send_plan() {
  PlanInputs inputs;
  inputs.view = view_;
  inputs.topology = &topology_;
  const CopyHolders holders = this->holders();
  inputs.holders = holders.holders_of;
  inputs.former_holders = former_holders_;
  inputs.is_protected = options_.is_protected;
  for (const Player& player : players_) {
    inputs.table.push_back({player.address, player.since});
    inputs.reports.push_back(*player.report);
  }
  inputs.restart_reason = std::exchange(restart_reason_, "");
  Plan plan = make_plan(inputs);
  note_unseen_losses(plan);
  plan.recovery = number_of_recovery();
  if (plan.restart_all && newest_ > Commit(-1) && !options_.restart_all_allowed) {
    return end(false, absl::StrCat("cannot go on exactly: ", absl::StrJoin(plan.reasons, "; ")));
  }
  for (const int stage : plan.rolled_back) stage_epochs_[static_cast<size_t>(stage)] = view_;
  if (plan.restart_all) std::fill(stage_epochs_.begin(), stage_epochs_.end(), view_);
  follow_recovery(plan);
  for (const std::string& reason : plan.reasons) actions_.push_back(Tell{absl::StrCat("view ", view_.value, ": ", reason)});
  if (holders_told_ != holders.reason) actions_.push_back(Tell{absl::StrCat("view ", view_.value, ": ", holders.reason)});
  holders_told_ = holders.reason;
  is_open_ = true;
  former_holders_ = plan.holders;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    Player& member = player(Rank(r));
    const int stage = topology_.role_of(Rank(r)).stage;
    if (plan.restart_all || stage_epochs_[static_cast<size_t>(stage)] == view_) member.finished = false;
    actions_.push_back(SendOrder{Rank(r), member.since, plan});
  }
}

// Found out by the former controller, which did not live to tell: its replacements are what is left of them.
void ControllerCore::note_unseen_losses(const Plan& plan) {
  if (present_recovery() != nullptr || plan.newest < Commit(0)) return;
  for (const int stage : plan.rolled_back) {
    for (const Rank rank : topology_.stage_group(stage)) {
      if (player(rank).report->stage_epoch == View(0)) note_loss(rank, "replaced when the new controller came");
    }
  }
}

void ControllerCore::follow_recovery(const Plan& plan) {
  without_state_.clear();
  behind_.clear();
  verified_ = 0;
  RecoveryRecord* const record = present_recovery();
  if (record == nullptr) return;
  record->planned = now_;
  record->views.push_back(view_);
  record->restarted_all = record->restarted_all || plan.restart_all;
  std::set<int> stages(record->rolled_back_stages.begin(), record->rolled_back_stages.end());
  stages.insert(plan.rolled_back.begin(), plan.rolled_back.end());
  record->rolled_back_stages.assign(stages.begin(), stages.end());
  record->reasons.insert(record->reasons.end(), plan.reasons.begin(), plan.reasons.end());
  for (const int stage : plan.rolled_back) {
    for (const Rank rank : topology_.stage_group(stage)) without_state_.insert(rank);
  }
  behind_ = without_state_;
}

void ControllerCore::release_if_finished() {
  const bool all = std::all_of(players_.begin(), players_.end(), [](const Player& player) {
    return player.phase == Player::Phase::kJoined && player.finished && !player.released;
  });
  if (!all) return;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    player(Rank(r)).released = true;
    actions_.push_back(SendOrder{Rank(r), player(Rank(r)).since, ReleaseOrder{}});
  }
  if (RecoveryRecord* const record = present_recovery(); record != nullptr) record->resumed = now_;
}

void ControllerCore::end(bool ok, std::string reason, bool bad_input) {
  has_ended_ = true;
  for (int32_t r = 0; r < topology_.world_size(); ++r) {
    const Player& left = players_[static_cast<size_t>(r)];
    if (left.phase != Player::Phase::kNone) actions_.push_back(KillWorker{left.node, Rank(r), left.since, "the job ends"});
  }
  actions_.push_back(EndJob{ok, bad_input, std::move(reason)});
}

}  // namespace evermoe
