#include "cli/reports/status_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace evermoe {
namespace {

JobStatus status() {
  JobStatus status;
  status.life = 1;
  status.term = {3, "process 7 on gpu1"};
  status.view = View(4);
  status.is_open = true;
  status.step = Step(120);
  status.steps = Step(2000);
  status.window = Step(116);
  status.durable = Step(100);
  status.failures = 2;
  status.median_step = absl::Milliseconds(62.5);
  status.elapsed = absl::Seconds(35);
  status.ettr = 0.875;
  status.survives = survivable_losses({{Node(0), Node(1)}}, {Node(0), Node(1)});
  using State = NodeStatus::State;
  status.nodes = {{Node(0), "gpu1", State::kInUse, absl::Milliseconds(200)},
                  {Node(1), "gpu0002", State::kLost, absl::Seconds(12)},
                  {Node(2), "", State::kAbsent, absl::ZeroDuration()},
                  {Node(3), "gpu4", State::kUnfit, absl::ZeroDuration(), {"disk: full", "clock"}}};
  using Phase = RoleStatus::Phase;
  status.roles = {{Rank(0), "0.0", Node(0), 4711, Phase::kRunning},
                  {Rank(1), "1.0", Node(1), 0, Phase::kMissing}};
  return status;
}

TEST(StatusReport, ForPeople) {
  EXPECT_EQ(to_text(status()),
            "job         step 120 of 2000, 62.5 ms a step; view 4\n"
            "saved       window 116 in memory, step 100 on disk\n"
            "survives    any one node; any two but 0+1\n"
            "failures    2; ETTR 0.88 over 35.0 s\n"
            "controller  number 1 of term 3\n"
            "\n"
            "node  host     state           silent  roles\n"
            "   0  gpu1     in use           0.2 s  0.0\n"
            "   1  gpu0002  lost            12.0 s\n"
            "   2           absent\n"
            "   3  gpu4     unfit            0.0 s\n"
            "node 3 is not fit: disk: full; clock\n"
            "\n"
            "role    node       pid  phase\n"
            "0.0        0      4711  running\n"
            "1.0        1         -  missing\n");
}

TEST(StatusReport, SaysWhoRests) {
  JobStatus elastic = status();
  elastic.roles[0].phase = RoleStatus::Phase::kResting;
  EXPECT_THAT(to_text(elastic), testing::HasSubstr("0.2 s  0.0 (rests)\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(elastic))["roles"][0]["phase"], "resting");
}

TEST(StatusReport, SaysWhereStandbysWait) {
  JobStatus warm = status();
  const Rank role = warm.roles[0].rank;
  warm.nodes[0].warm_standbys = {{}};
  warm.nodes[3].warm_standbys = {{}, {role}, {}};
  EXPECT_THAT(to_text(warm), testing::HasSubstr("0.2 s  0.0, 1 warm standby (every role)\n"));
  EXPECT_THAT(to_text(warm), testing::HasSubstr("0.0 s  3 warm standbys (0.0; every role)\n"));
  const auto node = nlohmann::json::parse(to_json(warm))["nodes"][3];
  EXPECT_EQ(node["standbys"], 3);
  EXPECT_EQ(node["standbys_warm_for"].dump(), R"([[],["0.0"],[]])");
}

TEST(StatusReport, SaysWhoIsSlow) {
  JobStatus slow = status();
  slow.roles[0].slow_by = 1.214;
  EXPECT_THAT(to_text(slow),
              testing::HasSubstr("running, a straggler: 1.21 times as long as others"));
  EXPECT_EQ(nlohmann::json::parse(to_json(slow))["roles"][0]["slow_by"], 1.214);
}

TEST(StatusReport, SaysWhichLinksAreSlow) {
  JobStatus slow = status();
  slow.slow_links = {{Node(2), Node(0), 9.25}};
  EXPECT_THAT(to_text(slow), testing::HasSubstr("slow link   from node 2 to node 0: messages take "
                                                "9.2 times as long as usual\n"));
  const auto link = nlohmann::json::parse(to_json(slow))["slow_links"][0];
  EXPECT_EQ(link["from"], 2);
  EXPECT_EQ(link["to"], 0);
  EXPECT_EQ(link["factor"], 9.25);
}

TEST(StatusReport, SaysWhichRolesMove) {
  JobStatus moving = status();
  moving.move = MoveRecord{.roles = {"1.0"}, .from = {Node(1)}, .to = {Node(3)}};
  EXPECT_THAT(to_text(moving),
              testing::HasSubstr("move        1.0 from node 1 to node 3: preparing\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(moving))["move"]["state"], "preparing");
  EXPECT_TRUE(nlohmann::json::parse(to_json(status()))["move"].is_null());
}

TEST(StatusReport, SaysHowExpertsMoved) {
  JobStatus moved = status();
  moved.experts = ExpertMove{Step(40), 2'500'000, 1.25, 1.0625, 0.5};
  EXPECT_THAT(
      to_text(moved),
      testing::HasSubstr("experts     moved at step 40: the busiest lane has 1.06 instead of "
                         "1.25 times the mean, 2.5 MB moved in 0.50 s\n"));
  const auto json = nlohmann::json::parse(to_json(moved))["experts"];
  EXPECT_EQ(json["step"], 40);
  EXPECT_EQ(json["imbalance_after"], 1.0625);
}

TEST(StatusReport, OfAJobThatHasJustBegun) {
  JobStatus fresh;
  fresh.steps = Step(10);
  fresh.is_draining = true;
  EXPECT_EQ(to_text(fresh).substr(0, to_text(fresh).find("\n\n")),
            "job         no step yet of 10, 0.0 ms a step; view 0, which is opening; draining\n"
            "saved       no window in memory yet\n"
            "survives    not known yet\n"
            "failures    0\n"
            "controller  number 0 of term 0");
  EXPECT_EQ(short_text(fresh), "no step yet of 10, view 0 (opening)");
}

TEST(StatusReport, ForScripts) {
  const auto json = nlohmann::json::parse(to_json(status()));
  EXPECT_EQ(json["step"], 120);
  EXPECT_EQ(json["window"], 116);
  EXPECT_EQ(json["durable_step"], 100);
  EXPECT_EQ(json["survives"]["any_nodes"], 1);
  EXPECT_EQ(json["survives"]["fatal"], nlohmann::json::parse("[[0,1]]"));
  EXPECT_EQ(json["ettr"], 0.875);
  EXPECT_EQ(json["term_owner"], "process 7 on gpu1");
  EXPECT_EQ(json["nodes"][1]["state"], "lost");
  EXPECT_EQ(json["nodes"][2]["silent_seconds"], nullptr);
  EXPECT_EQ(json["nodes"][3]["complaints"], nlohmann::json::parse(R"(["disk: full", "clock"])"));
  EXPECT_EQ(json["roles"][0]["pid"], 4711);
  EXPECT_EQ(json["roles"][1]["pid"], nullptr);
  const auto fresh = nlohmann::json::parse(to_json(JobStatus()));
  for (const char* name : {"step", "window", "durable_step", "ettr", "experts"})
    EXPECT_EQ(fresh[name], nullptr) << name;
}

}  // namespace
}  // namespace evermoe
