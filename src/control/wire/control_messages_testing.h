// Random messages of the control plane for tests: every kind, with every field anywhere in its
// range.
#pragma once

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "control/wire/control_messages.h"

namespace evermoe {

class RandomMessages {
 public:
  explicit RandomMessages(uint32_t seed) : random_(seed) {}

  // Kinds are the alternatives of ControlMessage.
  static constexpr size_t kKinds = std::variant_size_v<ControlMessage>;
  Envelope envelope(size_t kind) {
    Envelope result;
    result.start = number(0);
    fill<0>(kind, result.message);
    return result;
  }

 private:
  template <size_t I>
  void fill(size_t kind, ControlMessage& into) {
    if constexpr (I < kKinds) {
      if (kind != I) return fill<I + 1>(kind, into);
      make(into.emplace<I>());
    }
  }

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_()) % n; }
  bool coin() { return below(2) == 1; }
  // Small ones, and now and then any.
  int64_t number(int64_t least) {
    if (below(4) > 0) return least + below(100);
    return static_cast<int64_t>((uint64_t{random_()} << 31) ^ random_());
  }
  Rank rank() { return Rank(static_cast<int32_t>(below(kRanksMax))); }
  Node node() { return Node(static_cast<int32_t>(below(kRanksMax))); }
  View view() { return View(static_cast<uint32_t>(random_())); }
  Step step() { return Step(number(-1)); }
  Commit commit() { return Commit(number(-1)); }
  pid_t pid() { return static_cast<pid_t>(random_() & 0x7fffffff); }
  // Any bits: infinities and what is no number too.
  double real() { return std::bit_cast<double>((uint64_t{random_()} << 32) ^ random_()); }
  std::string text() {
    std::string result(below(20), '\0');
    for (char& byte : result) byte = static_cast<char>(random_());
    return result;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> result(below(4));
    for (std::string& one : result) one = text();
    return result;
  }
  std::vector<Rank> ranks() {
    std::vector<Rank> result(below(4));
    for (Rank& one : result) one = rank();
    return result;
  }
  absl::Duration moment() {
    return coin() ? absl::InfiniteDuration() : absl::Nanoseconds(number(0));
  }

  void make(Beat& m) {
    m.late = moment();
    m.starved.resize(below(4));
    for (StarvedWorker& one : m.starved) one = {rank(), view(), moment()};
    m.alive.resize(below(4));
    for (AliveWorker& one : m.alive) one = {number(0), {rank(), view(), view()}};
  }
  void make(WorkerHello& m) { m = {pid()}; }
  void make(AgentHello& m) { m = {node(), pid(), text(), text()}; }
  void make(RunHello&) {}
  void make(Welcome& m) { m = {number(0), {number(0), text(), text(), number(0)}, moment()}; }
  void make(AgentReady& m) {
    m.arithmetic = text();
    make(m.plan);
    m.complaints = texts();
    make(m.standbys);
    m.is_draining = coin();
  }
  void make(PlanName& m) { m = {view(), {random_(), random_()}}; }
  void make(PlanWanted& m) { make(m.plan); }
  void make(PlanHeld& m) { make(m.plan); }
  void make(FetchPlan& m) {
    make(m.plan);
    m.from = text();
    m.patience = moment();
    make(m.rest);
  }
  void make(AskPartners& m) {
    m.round = number(0);
    m.answer_max = moment();
    for (uint32_t n = below(4); n > 0; --n) m.partners.push_back({node(), text()});
  }
  void make(PartnersAsked& m) {
    m.round = number(0);
    for (uint32_t n = below(4); n > 0; --n) m.silent.push_back({node(), text()});
  }
  void make(PartnerQuestion& m) { m = {node(), text()}; }
  void make(PartnerAnswer& m) { m = {node(), text()}; }
  void make(WorkerStarted& m) { m = {rank(), view(), pid(), coin()}; }
  void make(StandbyWarm&) {}
  void make(BecomeStandby& m) { m = {text()}; }
  void make(TakeRole& m) {
    m = {number(0), rank(), view(), {number(0), text(), text(), number(0)}, text()};
  }
  void make(StandbysKept& m) {
    m = {node(),
         static_cast<int32_t>(below(9)),
         static_cast<int32_t>(below(9)),
         text(),
         {ranks(), ranks()}};
  }
  void make(ConfirmTerm& m) { m = {number(0)}; }
  void make(TermHeld& m) { m = {number(0)}; }
  void make(MoveWanted& m) {
    m.roles = ranks();
    for (uint32_t n = below(3); n > 0; --n) m.to.push_back(node());
    if (coin()) m.drained = node();
  }
  void make(MoveAnswer& m) { m = {coin(), text()}; }
  void make(MoveNote& m) {
    m.index = static_cast<int>(below(9));
    MoveRecord& record = m.record;
    record.roles = texts();
    for (uint32_t n = below(3); n > 0; --n) record.from.push_back(node());
    for (uint32_t n = below(3); n > 0; --n) record.to.push_back(node());
    record.cause = text();
    record.state = static_cast<MoveRecord::State>(below(6));
    record.reason = text();
    record.step = step();
    record.bytes = number(0);
    record.connections_opened = number(0);
    for (absl::Duration* one :
         {&record.asked, &record.warm, &record.copied, &record.stopped, &record.handed_over,
          &record.planned, &record.restored, &record.resumed, &record.usual_step})
      *one = moment();
  }
  void make(JoinerWanted& m) { m = {node(), rank(), view(), view(), {text(), view()}, coin()}; }
  void make(JoinerReady& m) { m = {node(), rank(), {text(), view()}}; }
  void make(KeepStandbys& m) {
    m = {node(), static_cast<int32_t>(below(9)), {}};
    m.roles.resize(below(3));
    for (Rank& role : m.roles) role = rank();
  }
  void make(MemberJoined& m) {
    m = {rank(), view(), node(),   text(), view(),       coin(),
         coin(), view(), commit(), view(), membership(), text()};
  }
  void make(MemberAlive& m) {
    m = {rank(), view(), view(), coin()};
    m.step_times.resize(below(3));
    for (StepTime& one : m.step_times) one = {step(), moment(), static_cast<double>(number(0))};
    m.link_times.resize(below(3));
    for (LinkTime& one : m.link_times)
      one = {rank(), moment(), moment(), static_cast<double>(number(0)), 0.5};
  }
  void make(WorkerEnded& m) {
    m = {rank(), view(), node(), text(), coin(), coin(), coin(), coin()};
  }
  void make(WorkerReport& m) {
    m = {static_cast<WorkerReport::Kind>(below(8)),
         rank(),
         step(),
         text(),
         std::nullopt,
         coin(),
         coin(),
         coin()};
    if (coin()) m.accused = rank();
    for (double* value : {&m.loss, &m.gradient_norm, &m.learning_rate, &m.load_imbalance,
                          &m.tokens_per_second, &m.validation_loss, &m.validation_accuracy})
      *value = real();
    if (coin()) make(m.protection.emplace());
    m.drained = coin();
    if (coin()) m.move = ExpertMove{step(), number(0), real(), real(), real()};
    for (uint32_t n = below(3); n > 0; --n) m.trained_on.push_back({step(), {1, 2}});
  }
  void make(ProtectionState& m) {
    m = {static_cast<int>(below(100)),
         step(),
         number(0),
         number(0),
         number(0),
         real(),
         real(),
         real()};
  }
  void make(WorkerLogTail& m) { m = {rank(), text(), texts()}; }
  void make(StartWorker& m) { m = {node(), rank(), view(), number(0)}; }
  void make(KillWorker& m) { m = {node(), rank(), view(), text(), coin()}; }
  void make(Drain&) {}
  void make(EndJob& m) { m = {coin(), coin(), text(), coin(), coin(), coin()}; }
  void make(JobEvent& m) { m = {text()}; }
  void make(RoleProcess& m) { m = {rank(), pid()}; }
  void make(NodeLost& m) { m = {node(), pid(), text()}; }
  void make(RecoveryNote& m) {
    m.index = static_cast<int>(below(1000));
    m.failed = moment();
    m.record.incident = number(0);
    m.record.roles = texts();
    m.record.standby_roles = texts();
    m.record.causes = texts();
    for (uint32_t n = below(3); n > 0; --n)
      m.record.rolled_back_stages.push_back(static_cast<int>(below(100)));
    m.record.restarted_all = coin();
    m.record.restarted_from = step();
    m.record.restarts = static_cast<int>(below(100));
    m.record.reasons = texts();
    m.record.sources = texts();
    for (uint32_t n = below(3); n > 0; --n) m.record.views.push_back(view());
    m.record.step = step();
    m.record.recomputed_steps = number(0);
    m.record.survivor_recomputed_steps = number(0);
    for (auto* time : {&m.record.noticed, &m.record.planned, &m.record.restored,
                       &m.record.caught_up, &m.record.verified, &m.record.resumed}) {
      *time = moment();
    }
  }
  void make(OperatorHello&) {}
  void make(NodeLeaves&) {}
  void make(JobStatus& m) {
    m.life = number(0);
    m.term = {number(0), text()};
    m.view = view();
    m.is_open = coin();
    m.is_draining = coin();
    m.step = step();
    m.steps = step();
    m.window = step();
    m.durable = step();
    m.failures = number(0);
    m.median_step = moment();
    m.elapsed = moment();
    m.ettr = real();
    m.survives = {coin(), coin(), static_cast<int>(below(100)), {}, number(0)};
    if (coin()) m.experts = ExpertMove{step(), number(0), real(), real(), real()};
    for (uint32_t n = below(3); n > 0; --n) m.survives.fatal.push_back({node(), node()});
    for (uint32_t n = below(4); n > 0; --n)
      m.nodes.push_back({node(),
                         text(),
                         static_cast<NodeStatus::State>(below(7)),
                         moment(),
                         texts(),
                         {ranks(), {}}});
    for (uint32_t n = below(4); n > 0; --n)
      m.roles.push_back({rank(), text(), node(), pid(), static_cast<RoleStatus::Phase>(below(5))});
    m.links_known = static_cast<int32_t>(below(100));
    for (uint32_t n = below(3); n > 0; --n) m.slow_links.push_back({node(), node(), real()});
  }
  void make(MemberSaid& m) {
    m.rank = rank();
    m.since = view();
    switch (below(10)) {
      case 0: return make(m.message.emplace<Report>());
      case 1: return make(m.message.emplace<Trouble>());
      case 2: return make(m.message.emplace<Milestone>());
      case 3: return make(m.message.emplace<Progress>());
      case 4: m.message = Examined{rank(), step(), node().value, coin(), text()}; return;
      case 5: m.message = HandedOver{view(), rank(), step(), number(0)}; return;
      case 6: m.message = CopiesGiven{view(), rank()}; return;
      case 7: m.message = Connected{view(), rank(), number(0)}; return;
      case 8:
        m.message = CannotLeave{view(), rank(), static_cast<CannotLeave::Why>(below(2))};
        return;
      default: m.message = Finished{rank(), step()};
    }
  }
  void make(SendOrder& m) {
    m.rank = rank();
    m.since = view();
    switch (below(4)) {
      case 0: m.message = StopOrder{view(), number(0), step()}; return;
      case 1: return make(m.message.emplace<Plan>());
      case 2: m.message = LeaveOrder{view(), {text(), view()}, step(), coin()}; return;
      default: m.message = ReleaseOrder{};
    }
  }
  void make(PlanUpdate& m) {
    Plan before, after;
    make(before);
    make(after);
    m = update_of(coin() ? &before : nullptr, after);
    for (uint32_t n = below(3); n > 0; --n) m.to.push_back({number(0), rank(), view()});
  }
  void make(Report& m) {
    m = {view(),   rank(), view(), coin(), coin(), step(), step(), step(),       step(),
         commit(), step(), step(), step(), {},     {},     view(), membership(), step()};
    for (uint32_t n = below(5); n > 0; --n) m.held.push_back({rank(), step(), number(0)});
    for (uint32_t n = below(3); n > 0; --n) m.whole_states.push_back({rank(), step()});
  }
  void make(Trouble& m) {
    m = {view(), view(), rank(), coin(), std::nullopt, coin(), text()};
    if (coin()) m.accused = rank();
  }
  void make(Milestone& m) {
    m = {view(), rank(), static_cast<Milestone::Kind>(below(6)), number(0), texts(), step()};
  }
  void make(Progress& m) { m = {view(), rank(), commit(), step(), number(0), number(0)}; }
  void make(StragglerFound& m) {
    m = {rank(), node(), static_cast<double>(number(0)), step(), coin()};
  }
  void make(SlowLinkFound& m) {
    m = {node(), node(), static_cast<double>(number(0)), step(), coin()};
  }
  void make(LanesChanged& m) {
    m = {step(), {1, 2}, static_cast<int32_t>(below(9)), text(), coin()};
  }
  MembershipHistory membership() {
    MembershipHistory history;
    for (uint32_t n = below(3); n > 0; --n)
      history.push_back({step(), ranks(), static_cast<int32_t>(below(9)), text(), view()});
    return history;
  }
  void make(Plan& m) {
    m.view = view();
    for (uint32_t n = below(4); n > 0; --n) m.table.push_back({text(), view()});
    m.restart_all = coin();
    m.newest = commit();
    m.record_source = rank();
    m.state = step();
    m.base = step();
    m.window = step();
    for (uint32_t n = below(3); n > 0; --n) m.rolled_back.push_back(static_cast<int>(below(100)));
    m.renews = coin();
    m.rejoining = ranks();
    for (uint32_t n = below(3); n > 0; --n) m.stage_epochs.push_back(view());
    m.membership = membership();
    for (uint32_t n = below(3); n > 0; --n) m.sources.push_back(ranks());
    for (uint32_t n = below(3); n > 0; --n) m.holders.push_back(ranks());
    m.reasons = texts();
    m.incident = number(0);
  }

  std::mt19937 random_;
};

}  // namespace evermoe
