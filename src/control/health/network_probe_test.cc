// Pictures of who reaches whom, and who is at fault.
#include "control/health/network_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Node> nodes(int count) {
  std::vector<Node> result;
  for (int32_t n = 0; n < count; ++n) result.emplace_back(n);
  return result;
}

std::string numbers(const std::set<Node>& of) {
  return absl::StrJoin(of, " ", [](std::string* out, Node n) { absl::StrAppend(out, n.value); });
}

// Rows and columns are nodes, "x": they do not reach each other.
std::vector<QuestionResult> results(const std::vector<std::string>& picture, int64_t round = 0) {
  std::vector<QuestionResult> results;
  for (const Question& question : questions_of(nodes(static_cast<int>(picture.size())), round)) {
    const auto row = static_cast<size_t>(question.asker.value);
    const auto column = static_cast<size_t>(question.asked.value);
    results.push_back({question, picture[row][column] == 'x' ? "no answer" : ""});
  }
  return results;
}

// "unfit | fit | pairs that are told"
std::string judged_results(const std::vector<QuestionResult>& of) {
  const NetworkVerdict verdict = judge_network(of);
  std::set<Node> unfit;
  for (const auto& [node, complaint] : verdict.unfit) unfit.insert(node);
  return absl::StrCat(numbers(unfit), " | ", numbers(verdict.fit), " | ",
                      absl::StrJoin(verdict.cut, " ", [](std::string* out, const auto& one) {
                        absl::StrAppend(out, one.question.asker.value, "-",
                                        one.question.asked.value);
                      }));
}
std::string judged(const std::vector<std::string>& picture) {
  return judged_results(results(picture));
}

// ---- who asks whom

TEST(Questions, AskAFewAndAreAskedByAsMany) {
  for (const int count : {2, 3, 4, 6, 7, 8, 9, 50, 1001}) {
    for (int64_t round = 0; round < 20; ++round) {
      SCOPED_TRACE(absl::StrCat(count, " nodes, round ", round));
      std::map<Node, std::set<Node>> asks;
      std::map<Node, int> is_asked;
      for (const Question& question : questions_of(nodes(count), round)) {
        EXPECT_NE(question.asker, question.asked);
        EXPECT_TRUE(asks[question.asker].insert(question.asked).second) << "twice";
        ++is_asked[question.asked];
      }
      for (const Node node : nodes(count)) {
        EXPECT_EQ(asks[node].size(), static_cast<size_t>(std::min(kPartnersMax, count / 2)));
        EXPECT_EQ(static_cast<size_t>(is_asked[node]), asks[node].size());
      }
    }
  }
}

TEST(Questions, InTimeAllHaveMet) {
  for (const int count : {2, 3, 4, 5, 7, 8, 9, 10, 23, 100}) {
    SCOPED_TRACE(count);
    std::set<std::pair<Node, Node>> met;
    for (int64_t round = 5; round < 5 + rounds_until_all_have_met(nodes(count).size()); ++round) {
      for (const Question& question : questions_of(nodes(count), round)) {
        met.insert(std::minmax(question.asker, question.asked));
      }
    }
    EXPECT_EQ(met.size(), static_cast<size_t>(count * (count - 1) / 2));
  }
}

TEST(Questions, OneMachineHasNobodyToAsk) {
  EXPECT_THAT(questions_of(nodes(1), 3), IsEmpty());
  EXPECT_THAT(questions_of({}, 3), IsEmpty());
  EXPECT_EQ(rounds_until_all_have_met(1), 0);
}

// ---- who is at fault

TEST(NetworkVerdict, WhereAllAnswerAllAreFit) {
  EXPECT_EQ(judged({"..", ".."}), " | 0 1 | ");
  EXPECT_EQ(judged({"....", "....", "....", "...."}), " | 0 1 2 3 | ");
}

TEST(NetworkVerdict, WhoReachesNobodyIsAtFault) {
  EXPECT_EQ(judged({"..x",  //
                    "..x",  //
                    "xx."}),
            "2 | 0 1 | ");
}

TEST(NetworkVerdict, WhoReachesTheControllersMachineOnlyIsAtFault) {
  const std::vector<std::string> picture = {"....",  //
                                            "..x.",  //
                                            ".x.x",  //
                                            "..x."};
  EXPECT_EQ(judged(picture), "2 | 0 1 3 | ");
  EXPECT_EQ(judge_network(results(picture)).unfit.at(Node(2)),
            "network: 2 of 3 machines cannot be reached (node 1: no answer, node 3: no answer)");
}

TEST(NetworkVerdict, OneDirectionIsEnough) {
  EXPECT_EQ(judged({"...x",  //
                    "...x",  //
                    "...x",  //
                    "...."}),
            "3 | 0 1 2 | ");
}

// Each of the others misses two of its three partners, too.
TEST(NetworkVerdict, TwoAtFaultDoNotDrawTheOthersWithThem) {
  EXPECT_EQ(judged({"..xx",  //
                    "..xx",  //
                    "xx.x",  //
                    "xxx."}),
            "2 3 | 0 1 | ");
}

TEST(NetworkVerdict, OfOneLineNeitherEndIsAtFault) {
  EXPECT_EQ(judged({".x.", "x..", "..."}), " | 0 1 2 | 0-1");
  EXPECT_EQ(judged({"....", "..x.", ".x..", "...."}), " | 0 1 2 3 | 1-2");
}

TEST(NetworkVerdict, OfTwoMachinesAloneNeitherCanBeBlamedNorIsItSeenToBeFit) {
  EXPECT_EQ(judged({".x", "x."}), " |  | 0-1");
}

TEST(NetworkVerdict, OfTwoHalvesNeitherCanBeBlamed) {
  EXPECT_EQ(judged({"..xx", "..xx", "xx..", "xx.."}), " |  | 0-2 0-3 1-2 1-3");
}

TEST(NetworkVerdict, TheSmallerPartIsAtFault) {
  EXPECT_EQ(judged({"...xx", "...xx", "...xx", "xxx..", "xxx.."}), "3 4 | 0 1 2 | ");
}

TEST(NetworkVerdict, WhereNobodyReachesAnybodyNobodyIsLeftOut) {
  EXPECT_EQ(judged({".xx", "x.x", "xx."}), " |  | 0-1 0-2 1-2");
}

TEST(NetworkVerdict, WhoSaysNothingIsJudgedByTheOthers) {
  std::vector<QuestionResult> of = results({"...x", "...x", "...x", "xxx."});
  std::erase_if(of, [](const auto& one) { return one.question.asker == Node(3); });
  EXPECT_EQ(judged_results(of), "3 | 0 1 2 | ");
  EXPECT_EQ(judged_results({}), " |  | ");
}

TEST(NetworkVerdict, AFewOfManyAreFoundInEveryRound) {
  constexpr int kCount = 100;
  const std::set<Node> cut = {Node(3), Node(4), Node(50), Node(77)};
  for (int64_t round = 0; round < rounds_until_all_have_met(kCount); ++round) {
    SCOPED_TRACE(round);
    std::vector<QuestionResult> of;
    for (const Question& question : questions_of(nodes(kCount), round)) {
      const bool is_cut = cut.contains(question.asker) || cut.contains(question.asked);
      of.push_back({question, is_cut ? "no answer" : ""});
    }
    const NetworkVerdict verdict = judge_network(of);
    EXPECT_EQ(verdict.unfit.size(), cut.size());
    for (const Node node : cut) {
      EXPECT_THAT(verdict.unfit.at(node),
                  AllOf(ContainsRegex("(6 of 6|5 of 5) machines"), HasSubstr(", ...)")));
    }
    EXPECT_EQ(verdict.fit.size(), kCount - cut.size());
  }
}

}  // namespace
}  // namespace evermoe
