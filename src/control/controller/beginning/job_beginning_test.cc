// What a controller waits for before it gives roles, in invented time.
#include "control/controller/beginning/job_beginning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using testing::IsEmpty;
using Begins = BeginningDecision::Kind;

constexpr int kRoles = 2;

// Of two machines and a spare.
ControllerOptions beginning_limits() {
  ControllerOptions options;
  options.nodes = 2;
  options.spares = 1;
  options.adoption = absl::Seconds(2);
  options.find_max = absl::Seconds(20);
  options.begin_max = absl::Seconds(60);
  options.fit_max = absl::Seconds(30);
  options.goes_on_max = absl::Seconds(100);
  return options;
}

ControllerOptions of_a_take_over() {
  ControllerOptions options = beginning_limits();
  options.takes_over = true;
  return options;
}

class Beginning {
 public:
  explicit Beginning(ControllerOptions options = beginning_limits())
      : options_(options), beginning_(options_, at(0)) {}

  Beginning& comes(int32_t node) { return nodes_.join(Node(node), at(0)), *this; }
  Beginning& is_unfit(int32_t node, std::vector<std::string> why) {
    return nodes_.check(Node(node), std::move(why)), *this;
  }
  Beginning& joins(int32_t rank) {
    MemberJoined event{.rank = Rank(rank), .since = View(1), .node = Node(rank)};
    return roles_.join(event, at(0)), *this;
  }
  Beginning& is_in(View view, bool is_open) { return view_ = {view, is_open}, *this; }

  BeginningDecision decides(double seconds) {
    return beginning_.decide(at(seconds), roles_, nodes_, view_);
  }
  Begins does(double seconds) { return decides(seconds).kind; }
  double deadline() const { return absl::ToDoubleSeconds(beginning_.deadline(nodes_, view_)); }
  JobBeginning& hears() { return beginning_; }
  static absl::Duration at(double seconds) { return absl::Seconds(1000 + seconds); }

 private:
  const ControllerOptions options_;
  RoleTable roles_{kRoles};
  NodeTable nodes_{absl::Seconds(2)};
  JobBeginning::AdoptedView view_;
  JobBeginning beginning_;
};

// ---- machines

TEST(JobBeginning, BeginsAsSoonAsItHasTheMachinesThatItNeeds) {
  Beginning job;
  EXPECT_EQ(job.comes(0).does(1), Begins::kWait);
  const BeginningDecision decision = job.comes(1).decides(1);
  EXPECT_EQ(decision.kind, Begins::kOpenView);
  EXPECT_EQ(decision.why, "the job begins");
  EXPECT_TRUE(job.hears().is_over());
  EXPECT_EQ(job.deadline(), absl::ToDoubleSeconds(absl::InfiniteDuration()));
}

TEST(JobBeginning, SaysOnceForWhomItWaits) {
  Beginning job;
  EXPECT_THAT(job.comes(0).decides(1.9).news, IsEmpty());
  EXPECT_THAT(job.decides(2).news, HasSubstr("1 of the 2 machines that the job needs are there"));
  EXPECT_THAT(job.decides(3).news, IsEmpty());
}

TEST(JobBeginning, BeginsOnTheMachinesThatHaveComeInTime) {
  Beginning job;
  EXPECT_EQ(job.comes(0).does(59), Begins::kWait);
  EXPECT_EQ(job.deadline(), 1060);
  EXPECT_EQ(job.does(60), Begins::kOpenView);
}

TEST(JobBeginning, IsRefusedWhereTooFewMachinesAreFitForTooLong) {
  Beginning job;
  const BeginningDecision first = job.comes(0).comes(1).is_unfit(1, {"disk: full"}).decides(5);
  EXPECT_EQ(first.kind, Begins::kWait);
  EXPECT_THAT(first.news, HasSubstr("are there and fit: the job waits for others, at most 30s"));
  EXPECT_EQ(job.deadline(), 1035);
  EXPECT_THAT(job.decides(34).news, IsEmpty());
  const BeginningDecision last = job.decides(35);
  EXPECT_EQ(last.kind, Begins::kRefuse);
  EXPECT_EQ(last.why,
            "1 of the 2 machines that the job needs are there and fit: node 1: disk: full");
}

TEST(JobBeginning, AWaitForFitMachinesBeginsAnewAfterAllWereFit) {
  ControllerOptions options = beginning_limits();
  options.network_max = absl::Seconds(40);
  Beginning job(options);
  EXPECT_EQ(job.comes(0).comes(1).is_unfit(1, {"disk: full"}).does(5), Begins::kWait);
  EXPECT_EQ(job.is_unfit(1, {}).does(30), Begins::kCheckNetwork);
  EXPECT_EQ(job.is_unfit(1, {"disk: full"}).does(36), Begins::kWait);
  EXPECT_EQ(job.does(66), Begins::kRefuse);
}

// ---- network

TEST(JobBeginning, AsksOnceWhetherMachinesReachEachOther) {
  ControllerOptions options = beginning_limits();
  options.network_max = absl::Seconds(5);
  Beginning job(options);
  EXPECT_EQ(job.comes(0).comes(1).does(1), Begins::kCheckNetwork);
  EXPECT_EQ(job.deadline(), 1006);
  EXPECT_EQ(job.does(2), Begins::kWait);
  job.hears().on_network_checked();
  EXPECT_EQ(job.does(3), Begins::kOpenView);
}

TEST(JobBeginning, DoesNotWaitForTheNetworkForLong) {
  ControllerOptions options = beginning_limits();
  options.network_max = absl::Seconds(5);
  Beginning job(options);
  EXPECT_EQ(job.comes(0).comes(1).does(1), Begins::kCheckNetwork);
  EXPECT_EQ(job.does(6), Begins::kOpenView);
}

// ---- members of a job that is taken over

TEST(JobBeginning, ATakeOverGoesOnInTheViewWhereAllAre) {
  Beginning job(of_a_take_over());
  job.comes(0).comes(1).comes(2).joins(0).is_in(View(3), true);
  EXPECT_EQ(job.does(1), Begins::kWait);
  EXPECT_EQ(job.joins(1).does(1), Begins::kGoOn);
}

TEST(JobBeginning, ATakeOverOpensAViewWhereTheirsIsNotOpen) {
  Beginning job(of_a_take_over());
  const BeginningDecision decision = job.joins(0).joins(1).is_in(View(3), false).decides(1);
  EXPECT_EQ(decision.kind, Begins::kOpenView);
  EXPECT_EQ(decision.why, "a new controller takes over");
}

TEST(JobBeginning, WhoIsAbsentMayComeLaterWhileMoreThanOneMachineIsMissing) {
  Beginning job(of_a_take_over());
  job.joins(0).is_in(View(3), false);
  EXPECT_EQ(job.comes(0).deadline(), 1020);
  EXPECT_EQ(job.comes(1).deadline(), 1002);
  EXPECT_EQ(job.does(1.9), Begins::kWait);
  EXPECT_EQ(job.does(2), Begins::kOpenView);
}

TEST(JobBeginning, AViewThatGoesOnNeedsWhoIsAbsent) {
  Beginning job(of_a_take_over());
  job.comes(0).comes(1).joins(0).is_in(View(3), true);
  EXPECT_EQ(job.deadline(), 1100);
  job.hears().on_commit(Beginning::at(10));
  EXPECT_EQ(job.deadline(), 1110);
  job.hears().on_trouble();
  EXPECT_EQ(job.deadline(), 1002);
}

}  // namespace
}  // namespace evermoe
