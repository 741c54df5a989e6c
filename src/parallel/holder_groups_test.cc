#include "parallel/holder_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace evermoe {
namespace {

using testing::ElementsAre;

using Holders = std::vector<std::vector<int>>;

// Of all ways to lose `lost` of the domains, the share that takes a state with all its copies.
double share_lost(const Holders& holders, int lost) {
  const auto domains = static_cast<int>(holders.size());
  int64_t ways = 0, fatal = 0;
  for (uint32_t set = 0; set < uint32_t{1} << domains; ++set) {
    if (std::popcount(set) != lost) continue;
    ++ways;
    const auto is_lost = [&](int domain) { return (set >> domain & 1) != 0; };
    bool is_fatal = false;
    for (int domain = 0; domain < domains && !is_fatal; ++domain)
      is_fatal = is_lost(domain) && std::ranges::all_of(holders[domain], is_lost);
    fatal += is_fatal ? 1 : 0;
  }
  return static_cast<double>(fatal) / static_cast<double>(ways);
}

Holders ring(int domains, int copies) {
  Holders holders(static_cast<size_t>(domains));
  for (int domain = 0; domain < domains; ++domain) {
    for (int i = 1; i <= copies; ++i) holders[domain].push_back((domain + i) % domains);
  }
  return holders;
}

double choose(int n, int k) {
  double ways = k < 0 || k > n ? 0 : 1;
  for (int i = 0; i < k; ++i) ways *= static_cast<double>(n - i) / (i + 1);
  return ways;
}

TEST(HolderGroupsTest, GroupsAreClosedAndTheirMembersFarApart) {
  EXPECT_THAT(holder_groups(6, 1), ElementsAre(ElementsAre(3), ElementsAre(4), ElementsAre(5),
                                               ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(holder_groups(6, 2)[1], ElementsAre(3, 5));
  EXPECT_THAT(holder_groups(6, 2)[5], ElementsAre(1, 3));
}

TEST(HolderGroupsTest, TheRemainderIsInARing) {
  EXPECT_THAT(holder_groups(3, 1), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(0)));
  EXPECT_THAT(holder_groups(5, 1), ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(3),
                                               ElementsAre(4), ElementsAre(2)));
  for (int domains = 2; domains <= 40; ++domains) {
    for (int copies = 1; copies < std::min(domains, 5); ++copies) {
      std::vector<int> kept(static_cast<size_t>(domains), 0);
      const Holders holders = holder_groups(domains, copies);
      for (int domain = 0; domain < domains; ++domain) {
        EXPECT_EQ(holders[domain].size(), static_cast<size_t>(copies));
        EXPECT_EQ(std::ranges::count(holders[domain], domain), 0);
        for (const int other : holders[domain]) ++kept[other];
      }
      EXPECT_THAT(kept, testing::Each(copies));
    }
  }
}

// Gemini, section 4: with m = copies + 1 replicas on n machines of which k fail at once, the
// probability of recovering from memory is at least 1 - n/m * C(n - m, k - m) / C(n, k), exactly so
// for k < 2m; and groups are better than a ring.
TEST(HolderGroupsTest, SurviveAsOftenAsThePaperSaysAndMoreOftenThanARing) {
  for (int copies = 1; copies <= 2; ++copies) {
    const int members = copies + 1;
    for (int domains = 2 * members; domains <= 12; domains += members) {
      for (int lost = members; lost <= domains - members; ++lost) {
        const double groups = share_lost(holder_groups(domains, copies), lost);
        const double bound = static_cast<double>(domains) / members *
                             choose(domains - members, lost - members) / choose(domains, lost);
        if (lost < 2 * members) {
          EXPECT_NEAR(groups, bound, 1e-12) << domains << " " << lost;
        }
        EXPECT_LE(groups, bound + 1e-12);
        // Of so many lost ones some are neighbours, or of one group, in any case.
        const double around = share_lost(ring(domains, copies), lost);
        EXPECT_TRUE(groups < around || groups == 1) << domains << " " << lost;
      }
    }
  }
}

// Every choice of one holder for each of up to six domains, in which each holds for one.
TEST(HolderGroupsTest, NoOtherChoiceOfOneCopySurvivesMoreOften) {
  for (const int domains : {4, 5, 6}) {
    std::vector<int> one(static_cast<size_t>(domains));
    for (int domain = 0; domain < domains; ++domain) one[domain] = domain;
    double best = 1;
    do {
      Holders holders;
      for (const int holder : one) holders.push_back({holder});
      bool is_own = false;
      for (int domain = 0; domain < domains; ++domain) is_own |= one[domain] == domain;
      if (!is_own) best = std::min(best, share_lost(holders, 2));
    } while (std::ranges::next_permutation(one).found);
    EXPECT_DOUBLE_EQ(share_lost(holder_groups(domains, 1), 2), best) << domains;
  }
}

TEST(HolderGroupsTest, RanksGoToOtherStages) {
  EXPECT_THAT(pair_across_stages({0, 1}, {0, 1}), ElementsAre(1, 0));
  EXPECT_THAT(pair_across_stages({0, 0, 1, 1}, {1, 0, 1, 0}), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(pair_across_stages({2}, {2}), ElementsAre(0)) << "there is no other one";
}

}  // namespace
}  // namespace evermoe
