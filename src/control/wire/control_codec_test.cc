#include "control/wire/control_codec.h"

#include <gtest/gtest.h>

#include "control/wire/control_codec_fuzz_entry.h"
#include "control/wire/control_messages_testing.h"

namespace evermoe {
namespace {

Envelope decoded(const Envelope& envelope) {
  const auto result = decode_envelope(encode(envelope));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : Envelope();
}

bool is_refused(const Envelope& envelope) {
  return absl::IsDataLoss(decode_envelope(encode(envelope)).status());
}

TEST(ControlCodec, EveryKindComesBack) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomMessages random(seed);
    for (size_t kind = 0; kind < RandomMessages::kKinds; ++kind) {
      const Envelope envelope = random.envelope(kind);
      const Envelope again = decoded(envelope);
      ASSERT_EQ(again.message.index(), kind);
      ASSERT_EQ(encode(again), encode(envelope));
    }
  }
}

// The encodings being equal says nothing about fields that are not encoded at all.
TEST(ControlCodec, TheFieldsOfAPlanToFetchComeBack) {
  FetchPlan fetch{{View(3), {5, 6}}, "10.0.0.1:7", absl::Milliseconds(8), {}};
  fetch.rest.to = {{9, Rank(1), View(2)}};
  const auto again = std::get<FetchPlan>(decoded({0, fetch}).message);
  EXPECT_EQ(again.plan, fetch.plan);
  EXPECT_EQ(again.from, "10.0.0.1:7");
  EXPECT_EQ(again.patience, absl::Milliseconds(8));
  ASSERT_EQ(again.rest.to.size(), 1u);
  EXPECT_EQ(again.rest.to[0].start, 9);
  EXPECT_EQ(std::get<PlanHeld>(decoded({0, PlanHeld{fetch.plan}}).message).plan, fetch.plan);
  EXPECT_EQ(std::get<PlanWanted>(decoded({0, PlanWanted{fetch.plan}}).message).plan, fetch.plan);
  EXPECT_EQ(std::get<AgentHello>(decoded({0, AgentHello{Node(1), 2, "h", "l"}}).message).lines,
            "l");
}

TEST(ControlCodec, TheFieldsOfSignsOfLifeComeBack) {
  Beat beat{.late = absl::Seconds(1)};
  beat.starved = {{Rank(4), View(5), absl::Seconds(6)}};
  const StepTime time{Step(9), absl::Milliseconds(12), 3.5};
  const LinkTime link{Rank(4), absl::Microseconds(90), absl::Milliseconds(2), 30, 0.25};
  beat.alive = {{7, {Rank(1), View(2), View(3), true, {time}, {link}}},
                {8, {Rank(0), View(3), View(0)}}};
  const auto again = std::get<Beat>(decoded({0, beat}).message);
  EXPECT_EQ(again.late, absl::Seconds(1));
  ASSERT_EQ(again.starved.size(), 1u);
  EXPECT_EQ(again.starved[0].starved, absl::Seconds(6));
  ASSERT_EQ(again.alive.size(), 2u);
  EXPECT_EQ(again.alive[0].start, 7);
  EXPECT_EQ(again.alive[0].sign.rank, Rank(1));
  EXPECT_EQ(again.alive[0].sign.since, View(2));
  EXPECT_EQ(again.alive[0].sign.entered, View(3));
  EXPECT_TRUE(again.alive[0].sign.waits);
  EXPECT_EQ(again.alive[0].sign.step_times, std::vector{time});
  EXPECT_EQ(again.alive[0].sign.link_times, std::vector{link});
  EXPECT_EQ(again.alive[1].start, 8);
}

TEST(ControlCodec, TheFieldsOfPartnersComeBack) {
  const AskPartners ask{7, absl::Seconds(4), {{Node(3), "10.0.0.3:7"}}};
  const auto again = std::get<AskPartners>(decoded({0, ask}).message);
  EXPECT_EQ(again.round, 7);
  EXPECT_EQ(again.answer_max, absl::Seconds(4));
  ASSERT_EQ(again.partners.size(), 1u);
  EXPECT_EQ(again.partners[0].node, Node(3));
  EXPECT_EQ(again.partners[0].lines, "10.0.0.3:7");
  const auto asked =
      std::get<PartnersAsked>(decoded({0, PartnersAsked{8, {{Node(4), "why"}}}}).message);
  EXPECT_EQ(asked.round, 8);
  ASSERT_EQ(asked.silent.size(), 1u);
  EXPECT_EQ(asked.silent[0].node, Node(4));
  EXPECT_EQ(asked.silent[0].why, "why");
  const auto question =
      std::get<PartnerQuestion>(decoded({0, PartnerQuestion{Node(5), "fill"}}).message);
  EXPECT_EQ(question.asked, Node(5));
  EXPECT_EQ(question.filling, "fill");
  const auto answer = std::get<PartnerAnswer>(decoded({0, PartnerAnswer{Node(6), "ed"}}).message);
  EXPECT_EQ(answer.node, Node(6));
  EXPECT_EQ(answer.filling, "ed");
}

TEST(ControlCodec, TheFieldsOfAReportComeBack) {
  const Report report{.view = View(3),
                      .rank = Rank(1),
                      .stage_epoch = View(2),
                      .is_broken = true,
                      .has_state = true,
                      .held_state = Step(6),
                      .logged_since = Step(3),
                      .catches_up_to = Step(5),
                      .awaits_state = Step(7),
                      .newest = Commit(8),
                      .state = Step(9),
                      .base = Step(2),
                      .complete_window = Step(4),
                      .held = {{Rank(1), Step(4), 5}, {Rank(0), Step(7)}},
                      .whole_states = {{Rank(1), Step(6)}},
                      .plan_view = View(2),
                      .membership = {{Step(4), {Rank(1)}, 5, "node 1 is lost"}}};
  const auto said =
      std::get<MemberSaid>(decoded({7, MemberSaid{Rank(1), View(2), report}}).message);
  EXPECT_EQ(said.rank, Rank(1));
  EXPECT_EQ(said.since, View(2));
  const auto& again = std::get<Report>(said.message);
  EXPECT_EQ(again.view, View(3));
  EXPECT_EQ(again.rank, Rank(1));
  EXPECT_EQ(again.stage_epoch, View(2));
  EXPECT_TRUE(again.is_broken);
  EXPECT_TRUE(again.has_state);
  EXPECT_EQ(again.held_state, Step(6));
  EXPECT_EQ(again.logged_since, Step(3));
  EXPECT_EQ(again.catches_up_to, Step(5));
  EXPECT_EQ(again.awaits_state, Step(7));
  EXPECT_EQ(again.whole_states, report.whole_states);
  EXPECT_EQ(again.newest, Commit(8));
  EXPECT_EQ(again.state, Step(9));
  EXPECT_EQ(again.base, Step(2));
  EXPECT_EQ(again.complete_window, Step(4));
  EXPECT_EQ(again.held, report.held);
  EXPECT_EQ(again.plan_view, View(2));
  EXPECT_EQ(again.membership, report.membership);
}

TEST(ControlCodec, TheFieldsOfAPlanComeBack) {
  Plan plan;
  plan.view = View(9);
  plan.table = {{"here", View(1)}, {"there", View(9)}};
  plan.newest = Commit(21);
  plan.record_source = Rank(1);
  plan.state = Step(8);
  plan.base = Step(3);
  plan.window = Step(6);
  plan.rolled_back = {0, 2};
  plan.rejoining = {Rank(1)};
  plan.stage_epochs = {View(9), View(4)};
  plan.membership = {{Step(4), {Rank(1)}, 5, "node 1 is lost"}};
  plan.sources = {{}, {Rank(0), Rank(2)}};
  plan.holders = {{Rank(1)}, {Rank(0)}};
  plan.reasons = {"role 0.1 is played by a new process"};
  const auto order = std::get<SendOrder>(decoded({1, SendOrder{Rank(1), View(1), plan}}).message);
  const auto& again = std::get<Plan>(order.message);
  EXPECT_EQ(again.view, plan.view);
  EXPECT_EQ(again.table, plan.table);
  EXPECT_FALSE(again.restart_all);
  EXPECT_EQ(again.newest, plan.newest);
  EXPECT_EQ(again.record_source, plan.record_source);
  EXPECT_EQ(again.state, plan.state);
  EXPECT_EQ(again.base, plan.base);
  EXPECT_EQ(again.window, plan.window);
  EXPECT_EQ(again.rolled_back, plan.rolled_back);
  EXPECT_EQ(again.rejoining, plan.rejoining);
  EXPECT_EQ(again.stage_epochs, plan.stage_epochs);
  EXPECT_EQ(again.membership, plan.membership);
  EXPECT_EQ(again.sources, plan.sources);
  EXPECT_EQ(again.holders, plan.holders);
  EXPECT_EQ(again.reasons, plan.reasons);
}

TEST(ControlCodec, WhoAccusesNobodyAccusesNobody) {
  Trouble trouble;
  trouble.accused = Rank(0);
  const auto round = [](const Trouble& t) {
    return std::get<Trouble>(
               std::get<MemberSaid>(decoded({0, MemberSaid{Rank(1), View(1), t}}).message).message)
        .accused;
  };
  EXPECT_EQ(round(trouble), Rank(0));
  trouble.accused.reset();
  EXPECT_EQ(round(trouble), std::nullopt);
}

TEST(ControlCodec, MomentsThatHaveNotComeStayAway) {
  RecoveryNote note;
  note.failed = absl::Nanoseconds(5);
  note.record.planned = absl::Milliseconds(7);
  const auto again = std::get<RecoveryNote>(decoded({0, note}).message);
  EXPECT_EQ(again.failed, absl::Nanoseconds(5));
  EXPECT_EQ(again.record.planned, absl::Milliseconds(7));
  EXPECT_EQ(again.record.resumed, absl::InfiniteDuration());
}

TEST(ControlCodec, NonsenseIsRefused) {
  EXPECT_TRUE(is_refused({-1, Beat{}}));
  EXPECT_TRUE(is_refused({0, MemberAlive{Rank(-1), View(0)}}));
  EXPECT_TRUE(is_refused({0, MemberAlive{Rank(kRanksMax), View(0)}}));
  EXPECT_TRUE(is_refused({0, Beat{.alive = {{1, {Rank(kRanksMax), View(0)}}}}}));
  EXPECT_TRUE(is_refused({0, Beat{.alive = {{-1, {Rank(0), View(0)}}}}}));
  EXPECT_TRUE(is_refused({0, AgentHello{Node(-1), 1}}));
  EXPECT_TRUE(is_refused({0, WorkerHello{-1}}));
  EXPECT_TRUE(is_refused({0, MemberSaid{Rank(0), View(1), Finished{Rank(0), Step(-2)}}}));
  EXPECT_TRUE(is_refused(
      {0, MemberSaid{Rank(0), View(1),
                     Milestone{View(1), Rank(0), static_cast<Milestone::Kind>(6), 0, {}}}}));
  EXPECT_TRUE(is_refused(
      {0, MemberSaid{Rank(0), View(1), Progress{View(1), Rank(0), Commit(-2), Step(0), 0, 0}}}));
  EXPECT_TRUE(
      is_refused({0, MemberSaid{Rank(0), View(1),
                                CannotLeave{View(1), Rank(0), static_cast<CannotLeave::Why>(2)}}}));
  Plan plan;
  plan.holders.assign(1, {Rank(-5)});
  EXPECT_TRUE(is_refused({0, SendOrder{Rank(0), View(1), plan}}));
  EXPECT_TRUE(absl::IsDataLoss(decode_envelope("").status()));
  EXPECT_TRUE(absl::IsDataLoss(decode_envelope("no envelope").status()));
}

TEST(ControlCodec, ListsHaveALimit) {
  Plan plan;
  plan.rolled_back.assign(kListMax, 0);
  EXPECT_FALSE(is_refused({0, SendOrder{Rank(0), View(1), plan}}));
  plan.rolled_back.push_back(0);
  EXPECT_TRUE(is_refused({0, SendOrder{Rank(0), View(1), plan}}));
}

TEST(ControlCodec, ANodeHasNoMoreWorkersThanAJobHasRoles) {
  Beat beat;
  beat.alive.resize(kWorkersMax);
  beat.starved.resize(kWorkersMax);
  EXPECT_FALSE(is_refused({0, beat}));
  beat.alive.emplace_back();
  EXPECT_TRUE(is_refused({0, beat}));
  beat.alive.pop_back();
  beat.starved.emplace_back();
  EXPECT_TRUE(is_refused({0, beat}));
}

// Whoever claims a long list has to send it.
TEST(ControlCodec, ASizeWithoutItsBytesIsRefused) {
  std::string bytes = encode({0, JobEvent{"hello"}});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_envelope(bytes.substr(0, size)).ok());
  EXPECT_FALSE(decode_envelope(bytes + "x").ok());
  bytes[9] = '\xff';
  EXPECT_FALSE(decode_envelope(bytes).ok());
}

TEST(ControlCodec, ALongTextIsCut) {
  const auto tell =
      std::get<JobEvent>(decoded({0, JobEvent{std::string(kTextBytesMax + 5, 'x')}}).message);
  EXPECT_EQ(tell.text.size(), kTextBytesMax);
}

TEST(ControlCodec, MutatedMessagesNeverBreakAPromise) {
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bytes = encode(RandomMessages(seed).envelope(seed % RandomMessages::kKinds));
    for (uint32_t n = 1 + random() % 4; n > 0; --n) {
      if (bytes.empty()) bytes = "\n";
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
        case 2: bytes.erase(at, random() % 4); break;
        case 3: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 8)); break;
      }
    }
    fuzz_control_codec(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace evermoe
