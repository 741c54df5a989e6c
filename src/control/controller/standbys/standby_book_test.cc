#include "control/controller/standbys/standby_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/controller/controlled_job_testing.h"

namespace evermoe {
namespace {

using testing::HasSubstr;

// "2 on 3": so many shall live on that node.
std::string missing(StandbyBook& book, const std::map<Node, int>& roles_of) {
  return absl::StrJoin(book.missing(roles_of), ", ",
                       [](std::string* out, const KeepStandbys& order) {
                         absl::StrAppend(out, order.count, " on ", order.node.value);
                       });
}

TEST(StandbyBook, TheyLiveOnSpareNodesFirstThenWhereTheFewestRolesAre) {
  StandbyBook one(1), four(4);
  const std::map<Node, int> roles_of = {{Node(0), 2}, {Node(1), 1}, {Node(2), 0}};
  EXPECT_EQ(missing(one, roles_of), "1 on 2");
  EXPECT_EQ(missing(one, roles_of), "") << "it is on its way";
  EXPECT_EQ(missing(four, roles_of), "1 on 0, 1 on 1, 2 on 2");
}

TEST(StandbyBook, OneThatPlaysARoleIsReplaced) {
  StandbyBook book(1);
  const std::map<Node, int> roles_of = {{Node(0), 1}, {Node(1), 0}};
  missing(book, roles_of);
  EXPECT_EQ(book.on_kept({Node(1), 1, 0, ""}), "");
  EXPECT_EQ(book.on_kept({Node(1), 0, 1, ""}), "a standby on node 1 is warm");
  EXPECT_EQ(book.on_kept({Node(1), 0, 1, ""}), "") << "that is known";
  book.on_start(Node(1));
  EXPECT_EQ(book.warm(Node(1)), 0);
  EXPECT_EQ(missing(book, {{Node(0), 0}, {Node(1), 1}}), "1 on 0");
}

TEST(StandbyBook, OneThatIsStillToTakeItsRoleHasNotBecomeWarm) {
  StandbyBook book(2);
  missing(book, {{Node(1), 0}});
  book.on_kept({Node(1), 0, 2, ""});
  book.on_start(Node(1));
  book.on_start(Node(1));
  EXPECT_EQ(book.on_kept({Node(1), 0, 1, ""}), "") << "the other one has taken its own";
}

TEST(StandbyBook, WhatIsLostWithANodeIsStartedElsewhere) {
  StandbyBook book(1);
  book.on_kept({Node(1), 0, 1, ""});
  EXPECT_EQ(missing(book, {{Node(0), 1}, {Node(1), 0}}), "");
  book.forget(Node(1));
  EXPECT_EQ(missing(book, {{Node(0), 1}}), "1 on 0");
}

TEST(StandbyBook, ANodeWhereTheyKeepEndingGetsNoMore) {
  StandbyBook book(1);
  const std::map<Node, int> roles_of = {{Node(0), 0}, {Node(1), 1}};
  EXPECT_EQ(missing(book, roles_of), "1 on 0");
  EXPECT_EQ(book.on_kept({Node(0), 0, 0, "no GPU is left"}),
            "a standby on node 0 has ended: no GPU is left");
  EXPECT_EQ(missing(book, roles_of), "1 on 0");
  book.on_kept({Node(0), 0, 0, "no GPU is left"});
  EXPECT_EQ(missing(book, roles_of), "1 on 0");
  EXPECT_EQ(book.on_kept({Node(0), 0, 0, "no GPU is left"}),
            "a standby on node 0 has ended: no GPU is left; no more are started there");
  EXPECT_EQ(missing(book, roles_of), "1 on 1");
  book.forget(Node(0));
  book.forget(Node(1));
  EXPECT_EQ(missing(book, roles_of), "1 on 0") << "it has joined anew";
}

TEST(StandbyBook, WhoIsThereAlreadyTakesThePlaceOfOneThatWouldBeStarted) {
  StandbyBook book(2);
  const std::map<Node, int> roles_of = {{Node(0), 0}, {Node(1), 0}, {Node(2), 3}};
  const auto among = [&](const std::map<Node, int>& leavers) {
    return book.among(leavers, roles_of);
  };
  using Found = std::map<Node, int>;
  EXPECT_EQ(among({{Node(0), 2}}), (Found{{Node(0), 1}})) << "the other one comes to node 1";
  EXPECT_EQ(among({{Node(0), 1}, {Node(1), 1}}), (Found{{Node(0), 1}, {Node(1), 1}}));
  EXPECT_EQ(among({{Node(2), 2}}), Found());
  book.expect(Node(0));
  EXPECT_EQ(among({{Node(0), 2}}), Found()) << "one is there";
  EXPECT_EQ(missing(book, roles_of), "1 on 1");
}

// ---- in the controller

ControllerOptions with_standbys(int standbys, int spares) {
  ControllerOptions options;
  options.nodes = 2;
  options.spares = spares;
  options.standbys = standbys;
  return options;
}

TEST(Standbys, AreStartedOnceTheJobTrains) {
  ControlledJob job(with_standbys(1, 1));
  job.begins();
  EXPECT_THAT(job.did(), testing::Not(HasSubstr("keep")));
  job.commits(1, 2).wait(0.1);
  EXPECT_EQ(job.did(), "keep 1 on 2");
  job.node_keeps(2, 1, 0).node_keeps(2, 0, 1).commits(3, 9);
  EXPECT_EQ(job.did(), "");
  EXPECT_THAT(job.said(), HasSubstr("a standby on node 2 is warm"));
}

TEST(Standbys, OneTakesTheRoleOfALostProcessAndTheNextOneWaitsUntilThatIsOver) {
  ControlledJob job(with_standbys(1, 1));
  job.begins().commits(1, 5).node_keeps(2, 0, 1).did();
  job.worker(2).dies();
  EXPECT_THAT(job.did(), testing::StartsWith("start 1.0 on 2"));
  EXPECT_THAT(job.said(), HasSubstr("worker 1.0 moves to node 2: a standby is warm there"));
  job.standby_takes(2).node_keeps(2, 0, 0).wait(1);
  EXPECT_THAT(job.did(), testing::Not(HasSubstr("keep")));
  EXPECT_THAT(job.said(), HasSubstr("worker 1.0: the standby of node 2 takes its role"));
  EXPECT_THAT(job.recovery().standby_roles, testing::ElementsAre("1.0"));
  job.commits(6, 8).wait(0.1);
  EXPECT_EQ(job.did(), "keep 1 on 1") << "node 1 plays one role, as node 2 does";
}

TEST(Standbys, OfTwoLostRolesOneIsStartedAfreshIfThereIsOneStandby) {
  ControlledJob job(with_standbys(1, 1));
  job.begins().commits(1, 5).node_keeps(2, 0, 1).did();
  job.worker(0).dies().worker(2).dies();
  EXPECT_THAT(job.did(), HasSubstr("start 0.0 on 2, start 1.0 on 1"));
}

TEST(Standbys, WithoutCopiesARoleStaysWhereItsMachineIs) {
  ControllerOptions options = ControlledJob::unprotected();
  options.nodes = 2;
  options.spares = 1;
  options.standbys = 1;
  ControlledJob job(options);
  job.begins().commits(1, 5).node_keeps(2, 0, 1).did();
  job.worker(2).dies().wait(1);
  EXPECT_THAT(job.did(), testing::StartsWith("start 1.0 on 1"));
}

TEST(Standbys, NoneAreStartedWhileTheJobDrains) {
  ControlledJob job(with_standbys(1, 0));
  job.begins().commits(1, 5).node_keeps(0, 0, 1).did();
  job.node_leaves(1).wait(0.5);
  EXPECT_EQ(job.did(), "drain");
  job.node_keeps(0, 0, 0).wait(1);
  EXPECT_EQ(job.did(), "");
}

}  // namespace
}  // namespace evermoe
