#include "faults/fault_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "faults/fault_points.h"
#include "faults/fault_script_fuzz_entry.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

const FaultLimits kLimits{.lanes = {2, 1}, .nodes = 3};

constexpr char kWholeScript[] = R"([[fault]]
kind = "kill_worker"
stage = 0
lane = 1
step = 5

[[fault]]
kind = "kill_node"
node = 2
step = 7
point = "step/before_verdict"
reached = 3

[[fault]]
kind = "stop_worker"
stage = 1
lane = 0
after_seconds = 1.5

[[fault]]
kind = "cut_connection"
stage = 0
lane = 0
other_stage = 1
other_lane = 0
step = 8
point = "step/backward"

[[fault]]
kind = "corrupt_copy"
stage = 0
lane = 1
in_recovery = 2
point = "recovery/plan"

[[fault]]
kind = "kill_controller"
in_recovery = 1
step = 9

[[fault]]
kind = "kill_controller"
after_seconds = 2

[[fault]]
kind = "corrupt_result"
stage = 1
lane = 0
step = 4
point = "step/backward"
reached = 1

[[fault]]
kind = "poison_samples"
tokens_begin = 100
tokens_end = 120

[[fault]]
kind = "lose_node"
node = 1
step = 12

[[fault]]
kind = "return_node"
node = 1
after_seconds = 3

[[fault]]
kind = "add_node"
node = 9
step = 20

[[fault]]
kind = "notice_node"
node = 1
seconds = 2.5
step = 4

[[fault]]
kind = "kill_leaver"
stage = 1
lane = 0
point = "move/hand_over"

[[fault]]
kind = "kill_joiner"
stage = 0
lane = 1

[[fault]]
kind = "slow_worker"
factor = 1.25
stage = 0
lane = 0
step = 6
)";

FaultScript parsed(const std::string& text) {
  const auto script = parse_fault_script(text, "faults.toml", kLimits);
  EXPECT_TRUE(script.ok()) << script.status();
  return script.ok() ? *script : FaultScript{};
}

std::string error_of(const std::string& text) {
  const absl::Status status = parse_fault_script(text, "faults.toml", kLimits).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

// Of a fault that has these lines after its header, so that they begin with line 2.
std::string fault_error(const std::string& lines) { return error_of("[[fault]]\n" + lines); }
const std::string kWorker = "kind = \"kill_worker\"\nstage = 0\nlane = 1\n";

TEST(FaultScript, EveryKindIsRead) {
  const std::vector<Fault> faults = parsed(kWholeScript).faults;
  ASSERT_EQ(faults.size(), 16);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(faults[static_cast<size_t>(i)].index, i);
  EXPECT_EQ(faults[0].kind, FaultKind::kKillWorker);
  EXPECT_EQ(faults[0].role, (FaultRole{0, 1}));
  EXPECT_EQ(faults[0].moment, (FaultMoment{.point = "step/forward", .step = Step(5)}));
  EXPECT_EQ(faults[0].after_seconds, std::nullopt);
  EXPECT_EQ(faults[1].node, 2);
  EXPECT_EQ(faults[1].moment,
            (FaultMoment{.point = "step/before_verdict", .step = Step(7), .reached = 3}));
  EXPECT_EQ(faults[2].after_seconds, 1.5);
  EXPECT_EQ(faults[2].moment, std::nullopt);
  EXPECT_EQ(faults[3].other, (FaultRole{1, 0}));
  EXPECT_EQ(faults[4].moment, (FaultMoment{.point = "recovery/plan", .recovery = 2}));
  EXPECT_EQ(faults[5].moment,
            (FaultMoment{.point = "recovery/stopped", .step = Step(9), .recovery = 1}));
  EXPECT_EQ(faults[6].after_seconds, 2.0);
  EXPECT_EQ(faults[7].moment,
            (FaultMoment{.point = "step/backward", .step = Step(4), .reached = 1}));
  EXPECT_EQ(faults[8].moment, std::nullopt);
  EXPECT_EQ((std::pair{faults[8].tokens_begin, faults[8].tokens_end}),
            (std::pair<int64_t, int64_t>{100, 120}));
  EXPECT_EQ((std::pair{faults[9].node, faults[9].after_step}),
            (std::pair(1, std::optional(Step(12)))));
  EXPECT_EQ(faults[10].after_seconds, 3.0);
  EXPECT_EQ(faults[10].after_step, std::nullopt);
  EXPECT_EQ(faults[11].node, 9) << "one that the job does not begin with";
}

TEST(FaultScript, NodesGoAndComeAfterAStepOrATime) {
  EXPECT_EQ(to_string(parsed(kWholeScript).faults[9]), "lose_node 1 after step 12");
  EXPECT_THAT(fault_error("kind='lose_node'\nnode=1"), HasSubstr("fault.step: found nothing"));
  EXPECT_THAT(fault_error("kind='add_node'\nnode=1\nstep=3\nafter_seconds=2"),
              HasSubstr("fault.step: found 3, allowed: not with after_seconds"));
  EXPECT_THAT(fault_error("kind='add_node'\nnode=1\nstep=3\npoint='step/forward'"),
              HasSubstr("not with kind add_node"));
  EXPECT_THAT(fault_error("kind='return_node'\nnode=5000\nstep=3"),
              HasSubstr("integer from 0 to 4095"));
}

TEST(FaultScript, AWorkerIsSlowByAFactor) {
  const auto faults = parsed(kWholeScript).faults;
  EXPECT_EQ(to_string(faults[15]), "slow_worker stage 0 lane 0 by 1.25 at step/forward of step 6");
  EXPECT_THAT(fault_error("kind='slow_worker'\nstage=0\nlane=0\nstep=3"),
              HasSubstr("fault.factor: found nothing"));
  EXPECT_THAT(fault_error("kind='slow_worker'\nstage=0\nlane=0\nstep=3\nfactor=0.5"),
              HasSubstr("fault.factor: found 0.5, allowed: number"));
  EXPECT_THAT(fault_error("kind='kill_worker'\nstage=0\nlane=0\nstep=3\nfactor=2"),
              HasSubstr("fault.factor: found 2, allowed: only with kind slow_worker"));
}

TEST(FaultScript, FaultsOfMovesHappenInWhicheverStepTheyDo) {
  const auto faults = parsed(kWholeScript).faults;
  EXPECT_EQ(to_string(faults[12]), "notice_node 1, which is gone 2.5 seconds later, after step 4");
  EXPECT_EQ(to_string(faults[13]), "kill_leaver stage 1 lane 0 at move/hand_over");
  EXPECT_EQ(to_string(faults[14]), "kill_joiner stage 0 lane 1 at recovery/plan");
  EXPECT_THAT(fault_error("kind='notice_node'\nnode=1\nstep=3"),
              HasSubstr("fault.seconds: found nothing"));
  EXPECT_THAT(fault_error("kind='kill_leaver'\nstage=0\nlane=0\nstep=3"),
              HasSubstr("fault.step: found 3, allowed: not with kind kill_leaver"));
  EXPECT_THAT(fault_error("kind='kill_leaver'\nstage=0\nlane=0\npoint='step/forward'"),
              HasSubstr("allowed: move/copying, move/hand_over, move/handed_over"));
  EXPECT_THAT(fault_error("kind='kill_node'\nnode=0\nstep=3\nseconds=1"),
              HasSubstr("fault.seconds: found 1, allowed: only with kind notice_node"));
}

TEST(FaultScript, EveryKindSurvivesTheRoundTrip) {
  const FaultScript script = parsed(kWholeScript);
  EXPECT_EQ(parsed(to_toml(script)), script);
  EXPECT_EQ(to_toml(parsed("[[fault]]\nkind='kill_controller'\nin_recovery=1\nlane=0\nstage=1")),
            "[[fault]]\nkind = \"kill_controller\"\nstage = 1\nlane = 0\nin_recovery = 1\n"
            "point = \"recovery/stopped\"\n");
}

TEST(FaultScript, EveryPointCanBeNamed) {
  for (const KnownFaultPoint& point : kFaultPoints) {
    const FaultScript script =
        parsed(absl::StrCat("[[fault]]\n", kWorker, "step = 1\npoint = \"", point.name, "\""));
    EXPECT_EQ(script.faults.at(0).moment->point, point.name);
  }
}

TEST(FaultScript, AnEmptyTextIsAnEmptyScript) {
  EXPECT_EQ(parsed(""), FaultScript{});
  EXPECT_EQ(parsed("fault = []"), FaultScript{});
  EXPECT_EQ(to_toml(FaultScript{}), "");
}

TEST(FaultScript, FaultsAreTold) {
  const std::vector<Fault> faults = parsed(kWholeScript).faults;
  EXPECT_EQ(to_string(faults[0]), "kill_worker stage 0 lane 1 at step/forward of step 5");
  EXPECT_EQ(to_string(faults[1]), "kill_node 2 at step/before_verdict of step 7 after 3 passings");
  EXPECT_EQ(to_string(faults[2]), "stop_worker stage 1 lane 0 after 1.5 seconds");
  EXPECT_EQ(to_string(faults[3]),
            "cut_connection stage 0 lane 0 to stage 1 lane 0 at step/backward of step 8");
  EXPECT_EQ(to_string(faults[4]), "corrupt_copy stage 0 lane 1 at recovery/plan in recovery 2");
  EXPECT_EQ(to_string(faults[5]),
            "kill_controller with stage 0 lane 0 at recovery/stopped of step 9 in recovery 1");
  EXPECT_EQ(to_string(faults[6]), "kill_controller after 2 seconds");
  EXPECT_EQ(to_string(faults[7]),
            "corrupt_result stage 1 lane 0 at step/backward of step 4 after 1 passings");
  EXPECT_EQ(to_string(faults[8]), "poison_samples tokens 100 to 120");
}

TEST(FaultScriptError, BadToml) {
  EXPECT_THAT(error_of("[[fault]]\nkind = = 3"), HasSubstr("faults.toml:2:8: not TOML: "));
  EXPECT_THAT(error_of("\xff"), HasSubstr("faults.toml:1:1: not TOML: "));
}

TEST(FaultScriptError, UnknownKeys) {
  EXPECT_EQ(error_of("step = 3"), "faults.toml:1:1: step: unknown key, allowed: fault");
  EXPECT_EQ(error_of("[faults]"), "faults.toml:1:2: faults: unknown key, allowed: fault");
  EXPECT_EQ(error_of("\"a\\nb\" = 3"), "faults.toml:1:1: \"a\\nb\": unknown key, allowed: fault");
  EXPECT_EQ(fault_error(kWorker + "steps = 3"),
            "faults.toml:5:1: fault.steps: unknown key, allowed: kind, stage, lane, other_stage, "
            "other_lane, node, step, point, reached, in_recovery, after_seconds, tokens_begin, "
            "tokens_end, seconds, factor");
}

TEST(FaultScriptError, NotAnArrayOfTables) {
  const std::string allowed = ", allowed: at most 1000 tables [[fault]]";
  EXPECT_EQ(error_of("fault = 3"), "faults.toml:1:1: fault: found 3" + allowed);
  EXPECT_EQ(error_of("\n[fault]\nkind = 3"), "faults.toml:2:2: fault: found a table" + allowed);
  EXPECT_EQ(error_of("fault = [{}, 3]"), "faults.toml:1:1: fault: found an array of 2" + allowed);
}

TEST(FaultScriptError, Kinds) {
  const std::string allowed =
      ", allowed: kill_worker, kill_node, stop_worker, cut_connection, corrupt_copy, "
      "corrupt_state, kill_controller, corrupt_result, poison_samples, lose_node, "
      "return_node, add_node, notice_node, kill_leaver, kill_joiner, slow_worker";
  EXPECT_EQ(fault_error("stage = 0"), "faults.toml:1:1: fault.kind: found nothing" + allowed);
  EXPECT_EQ(fault_error("kind = \"explode\""),
            "faults.toml:2:1: fault.kind: found \"explode\"" + allowed);
  EXPECT_EQ(fault_error("kind = 2020-01-02"),
            "faults.toml:2:1: fault.kind: found 2020-01-02" + allowed);
  EXPECT_EQ(fault_error("kind = \"" + std::string(79, 'x') + "\xc3\xa9\""),
            "faults.toml:2:1: fault.kind: found \"" + std::string(79, 'x') + "...\"" + allowed);
}

// Another thread passes the other points, and reads what would be changed.
TEST(FaultScriptError, AStateIsCorruptedBetweenUpdates) {
  const std::string state = "kind = \"corrupt_state\"\nstage = 0\nlane = 0\n";
  EXPECT_EQ(parsed("[[fault]]\n" + state + "in_recovery = 1\npoint = \"catch_up/step\"")
                .faults.at(0)
                .kind,
            FaultKind::kCorruptState);
  EXPECT_THAT(fault_error(state + "in_recovery = 1"), HasSubstr("allowed: step/forward, "));
  EXPECT_THAT(fault_error(state + "step = 1\npoint = \"capture/sent\""),
              HasSubstr("catch_up/step, catch_up/update, catch_up/verified"));
  EXPECT_THAT(fault_error(state + "after_seconds = 1"),
              HasSubstr("allowed: not with kind corrupt_state"));
}

TEST(FaultScriptError, AResultIsCorruptedBeforeItIsComputed) {
  const std::string result = "kind = \"corrupt_result\"\nstage = 0\nlane = 0\n";
  EXPECT_THAT(fault_error(result + "step = 1\npoint = \"step/updated\""),
              HasSubstr("allowed: step/forward, step/backward"));
  EXPECT_THAT(fault_error(result + "after_seconds = 1"),
              HasSubstr("allowed: not with kind corrupt_result"));
}

TEST(FaultScriptError, PoisonedSamplesAreARangeOfTokensAndNothingElse) {
  const std::string samples = "kind = \"poison_samples\"\n";
  EXPECT_EQ(fault_error(samples + "tokens_begin = 5\ntokens_end = 5"),
            "faults.toml:4:1: fault.tokens_end: found 5, allowed: integer from 6 to "
            "1125899906842624");
  EXPECT_EQ(fault_error(samples + "tokens_begin = 5"),
            "faults.toml:1:1: fault.tokens_end: found nothing, allowed: integer from 6 to "
            "1125899906842624");
  EXPECT_EQ(fault_error(samples + "tokens_begin = 5\ntokens_end = 9\nstep = 3"),
            "faults.toml:5:1: fault.step: found 3, allowed: not with kind poison_samples");
  EXPECT_EQ(fault_error(kWorker + "tokens_end = 9"),
            "faults.toml:5:1: fault.tokens_end: found 9, allowed: only with kind poison_samples");
}

TEST(FaultScriptError, Targets) {
  EXPECT_EQ(fault_error("kind = \"kill_worker\"\nlane = 0\nstep = 1"),
            "faults.toml:1:1: fault.stage: found nothing, allowed: integer from 0 to 1");
  EXPECT_EQ(fault_error("kind = \"stop_worker\"\nstage = 2\nlane = 0"),
            "faults.toml:3:1: fault.stage: found 2, allowed: integer from 0 to 1");
  EXPECT_EQ(fault_error("kind = \"corrupt_copy\"\nstage = 1\nlane = 1"),
            "faults.toml:4:1: fault.lane: found 1, allowed: integer from 0 to 0");
  EXPECT_EQ(fault_error("kind = \"kill_node\"\nnode = 3"),
            "faults.toml:3:1: fault.node: found 3, allowed: integer from 0 to 2");
  EXPECT_EQ(fault_error("kind = \"kill_node\"\nnode = 1\nlane = 0"),
            "faults.toml:4:1: fault.lane: found 0, allowed: not with kind kill_node");
  EXPECT_EQ(fault_error(kWorker + "node = 0"),
            "faults.toml:5:1: fault.node: found 0, allowed: only with kinds kill_node, "
            "lose_node, return_node, add_node and notice_node");
  EXPECT_EQ(fault_error(kWorker + "other_lane = 0"),
            "faults.toml:5:1: fault.other_lane: found 0, allowed: only with kind cut_connection");
  EXPECT_EQ(fault_error("kind = \"cut_connection\"\nstage = 0\nlane = 0\nother_lane = 0"),
            "faults.toml:1:1: fault.other_stage: found nothing, allowed: integer from 0 to 1");
  EXPECT_EQ(
      fault_error(
          "kind = \"cut_connection\"\nstage = 0\nlane = 0\nother_stage = 0\nother_lane = 0"),
      "faults.toml:6:1: fault.other_lane: found 0, allowed: another worker than that of stage "
      "and lane");
  EXPECT_EQ(fault_error("kind = \"kill_controller\"\nstage = 0\nstep = 1"),
            "faults.toml:1:1: fault.lane: found nothing, allowed: integer from 0 to 1");
  EXPECT_EQ(fault_error("kind = \"kill_controller\"\nstage = 0\nafter_seconds = 1"),
            "faults.toml:3:1: fault.stage: found 0, allowed: not with kind kill_controller and "
            "after_seconds");
}

TEST(FaultScriptError, Times) {
  EXPECT_EQ(fault_error(kWorker + "point = \"step/save\""),
            "faults.toml:1:1: fault.step: found nothing, allowed: integer from 1 to 1000000000, or "
            "in_recovery or after_seconds instead");
  EXPECT_EQ(fault_error(kWorker + "step = 0"),
            "faults.toml:5:1: fault.step: found 0, allowed: integer from 1 to 1000000000");
  EXPECT_EQ(fault_error(kWorker + "step = 1.5"),
            "faults.toml:5:1: fault.step: found 1.5, allowed: integer from 1 to 1000000000");
  EXPECT_EQ(fault_error(kWorker + "in_recovery = 0"),
            "faults.toml:5:1: fault.in_recovery: found 0, allowed: integer from 1 to 1000000");
  EXPECT_EQ(fault_error(kWorker + "step = 1\nreached = -1"),
            "faults.toml:6:1: fault.reached: found -1, allowed: integer from 0 to 1000000");
  EXPECT_EQ(fault_error(kWorker + "step = 1\npoint = \"step/forwards\""),
            "faults.toml:6:1: fault.point: found \"step/forwards\", allowed: " +
                known_fault_point_names());
  EXPECT_EQ(fault_error(kWorker + "step = 1\nafter_seconds = 1"),
            "faults.toml:5:1: fault.step: found 1, allowed: not with after_seconds");
  for (const char* seconds : {"-1", "-0.5", "inf", "nan", "\"1\""}) {
    EXPECT_EQ(fault_error(kWorker + "after_seconds = " + seconds),
              absl::StrCat("faults.toml:5:1: fault.after_seconds: found ", seconds,
                           ", allowed: number x with 0 <= x <= 1e+09"));
  }
}

TEST(FaultScriptError, ALaterFaultHasItsOwnLines) {
  EXPECT_EQ(error_of("[[fault]]\n" + kWorker + "step = 1\n[[fault]]\n" + kWorker),
            "faults.toml:6:1: fault.step: found nothing, allowed: integer from 1 to 1000000000, or "
            "in_recovery or after_seconds instead");
}

TEST(FaultScriptError, Limits) {
  const std::string one = "[[fault]]\nkind=\"kill_controller\"\nstep=1\n";
  std::string many;
  for (int i = 0; i < 1000; ++i) many += one;
  EXPECT_EQ(parsed(many).faults.size(), 1000);
  EXPECT_EQ(
      error_of(many + one),
      "faults.toml:1:3: fault: found an array of 1001, allowed: at most 1000 tables [[fault]]");
  EXPECT_EQ(error_of(std::string(kFaultScriptBytesMax + 1, '\n')),
            "faults.toml: found 1048577 bytes, allowed: at most 1048576");
}

TEST(FaultScriptFile, IsLoaded) {
  const std::string path = testing::TempDir() + "/evermoe_fault_script_test.toml";
  ASSERT_TRUE(write_file_synced(real_files(), path, kWholeScript).ok());
  const auto script = load_fault_script(real_files(), path, kLimits);
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_EQ(*script, parsed(kWholeScript));
  ASSERT_TRUE(
      write_file_synced(real_files(), path, std::string(kFaultScriptBytesMax + 1, '\n')).ok());
  EXPECT_EQ(load_fault_script(real_files(), path, kLimits).status().message(),
            path + ": has 1048577 bytes, the limit is 1048576");
  ASSERT_TRUE(real_files().remove_file(path).ok());
  EXPECT_EQ(load_fault_script(real_files(), path, kLimits).status().message(),
            path + ": no such file, allowed: a TOML fault script");
}

TEST(FaultScriptFuzz, MutatedScriptsNeverBreakAPromise) {
  const std::string alphabet = "=[]{}\"'.,#-+_0123456789eainf \n\t\\x\xff";
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bytes = kWholeScript;
    for (uint32_t n = 1 + random() % 4; n > 0 && !bytes.empty(); --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = alphabet[random() % alphabet.size()]; break;
        case 1: bytes.erase(at, 1 + random() % 8); break;
        case 2: bytes.insert(at, 1, alphabet[random() % alphabet.size()]); break;
        default: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40)); break;
      }
    }
    fuzz_fault_script(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace evermoe
