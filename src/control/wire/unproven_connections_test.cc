// Who has to go when strangers hold connections.
#include "control/wire/unproven_connections.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

using Number = UnprovenConnections::Number;

class UnprovenConnectionsTest : public testing::Test {
 protected:
  Number add(const std::string& source, double seconds) {
    table_.add(++last_, source, absl::Seconds(seconds));
    return last_;
  }
  std::optional<Number> overdue(double seconds) {
    return table_.take_overdue(absl::Seconds(seconds));
  }
  UnprovenConnections table_;
  Number last_ = 0;
};

TEST_F(UnprovenConnectionsTest, HaveATimeToProveThemselves) {
  EXPECT_EQ(table_.next_deadline(), absl::InfiniteDuration());
  const Number first = add("a", 0), second = add("a", 1);
  const double age = absl::ToDoubleSeconds(UnprovenConnections::kAgeMax);
  EXPECT_EQ(table_.next_deadline(), absl::Seconds(age));
  EXPECT_EQ(overdue(age - 0.1), std::nullopt);
  EXPECT_EQ(overdue(age), first);
  EXPECT_EQ(overdue(age), std::nullopt);
  table_.remove(second);
  table_.remove(second);
  EXPECT_EQ(overdue(1000), std::nullopt) << "it has proven itself";
}

TEST_F(UnprovenConnectionsTest, OneMachineWithManyGivesWayAtOnce) {
  const Number agent = add("agent", 0);
  std::vector<Number> strangers;
  for (size_t i = 1; i < UnprovenConnections::kMax; ++i) strangers.push_back(add("stranger", 0));
  EXPECT_TRUE(table_.is_full());
  EXPECT_EQ(overdue(0), strangers[0]) << "the oldest of the machine with most";
  EXPECT_FALSE(table_.is_full());
  EXPECT_EQ(overdue(0), std::nullopt) << "there is room again";
  add("stranger", 0);
  EXPECT_EQ(overdue(0), strangers[1]);
  table_.remove(agent);
}

TEST_F(UnprovenConnectionsTest, ManyMachinesAtOnceHaveTheTimeOfAHandshake) {
  for (size_t i = 0; i < UnprovenConnections::kMax; ++i) add(absl::StrCat("agent ", i), 0);
  EXPECT_TRUE(table_.is_full());
  EXPECT_EQ(table_.next_deadline(), UnprovenConnections::kAgeMin);
  EXPECT_EQ(overdue(0.9), std::nullopt);
  EXPECT_TRUE(overdue(1.0).has_value()) << "one makes room for who waits";
  EXPECT_EQ(overdue(1.0), std::nullopt);
}

TEST_F(UnprovenConnectionsTest, NeverAreMoreThanTheLimit) {
  double now = 0;
  for (int i = 0; i < 10'000; ++i) {
    now += 0.01;
    while (table_.is_full()) {
      if (!overdue(now)) now = absl::ToDoubleSeconds(table_.next_deadline());
    }
    add(absl::StrCat("source ", i % 7), now);
  }
  size_t left = 0;
  while (overdue(now + 1000)) ++left;
  EXPECT_LE(left, UnprovenConnections::kMax);
}

}  // namespace
}  // namespace evermoe
