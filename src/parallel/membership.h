// Which roles of a job train and which rest.
//
// A job keeps its roles for good. Where it has fewer machines than it began with some of them rest:
// their processes live, follow the commits and keep copies for others, but have no state of the
// model, and the other lanes of their stage do their share of every step. Lane 0 of a stage never
// rests, so no stage is without a lane.
//
// What a step computes is a function of how many lanes of each stage train, not of which: lanes
// that train count themselves anew, in the order of their roles. That number is a lane's *place*.
//
// Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "parallel/topology.h"

namespace evermoe {

// Ascending.
using RestingRoles = std::vector<Rank>;

struct MembershipChange {
  Step step;             // the state from which on it holds
  RestingRoles resting;  // all others train
  int32_t nodes = 0;     // that the job had then, for people; 0: not known
  std::string cause;     // likewise
  // The newest one that planned it: in which the roles that train from then on know each other.
  View view;
  friend bool operator==(const MembershipChange&, const MembershipChange&) = default;
};
// Ascending by step, none twice. Before the first everybody trains.
using MembershipHistory = std::vector<MembershipChange>;

// Who rests in the state at `step`.
RestingRoles resting_at(const MembershipHistory& history, Step step);
// The view of the change that holds there; View(0): there is none.
View view_at(const MembershipHistory& history, Step step);
// Whether other roles rest in the state at `step` than in the one before it.
bool changes_at(const MembershipHistory& history, Step step);
// Whether there is such a state after `from`, up to `to`.
bool changes_between(const MembershipHistory& history, Step from, Step to);
// What is needed of it to go back to the state at `oldest`, and who rested at the beginning.
MembershipHistory since(MembershipHistory history, Step oldest);

// "" if these roles of the topology may rest; else what is wrong.
std::string problem_with(const RestingRoles& resting, const Topology& roles);

// The last lanes of each stage rest, so that lanes[s] of stage s train. REQUIRES: one number for
// each stage, from 1 to its lanes.
RestingRoles last_lanes_resting(const Topology& roles, std::span<const int> lanes);

// With how many of its `lanes` a stage trains that may only do so with these numbers of them,
// ascending: the largest that is not more. With all of them where there is none, or none is given.
int width_of(std::span<const int> widths, int lanes);

class Membership {
 public:
  // Everybody trains.
  explicit Membership(const Topology& roles) : Membership(roles, {}) {}
  // REQUIRES: problem_with(resting, roles) is empty.
  Membership(const Topology& roles, RestingRoles resting);

  const RestingRoles& resting() const { return resting_; }
  bool rests(Rank rank) const;
  // The layout of those that train: its roles are places.
  const Topology& lanes() const { return lanes_; }
  // nullopt: it rests.
  std::optional<Role> place_of(Rank rank) const;
  Rank rank_at(Role place) const { return ranks_[place_index(place)]; }
  // The ranks of a stage that train, in the order of their places.
  std::vector<Rank> stage_group(int stage) const;

  friend bool operator==(const Membership& a, const Membership& b) {
    return a.resting_ == b.resting_;
  }

 private:
  size_t place_index(Role place) const { return static_cast<size_t>(lanes_.rank_of(place).value); }

  RestingRoles resting_;
  Topology lanes_;
  std::vector<Rank> ranks_;  // by place
};

}  // namespace evermoe
