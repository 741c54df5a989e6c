// Which node plays which part of a job, and which nodes are spare.
//
// A job has numbered *places*, one for each node that it needs. Place s keeps copies for others:
// those of place s go to s + stride, s + 2 stride, ..., cyclically, where the stride is the width
// of a rack.
#pragma once

#include <set>
#include <span>
#include <vector>

namespace evermoe {

class JobPlaces {
 public:
  // Nobody plays anything yet. REQUIRES: 1 <= places, 0 <= nodes.
  JobPlaces(int places, int nodes, int racks);

  int places() const { return static_cast<int>(node_of_.size()); }
  int filled() const { return filled_; }
  bool is_full() const { return filled_ == places(); }
  int spares() const { return static_cast<int>(spares_.size()); }

  // The nodes are there and idle. REQUIRES: they were not.
  void add(std::span<const int> nodes);
  // The nodes are gone: their places, now vacant, ascending. Unknown nodes are passed over.
  std::vector<int> remove(std::span<const int> nodes);
  // How many of these nodes are idle spares.
  int spares_among(std::span<const int> nodes) const;
  // The places that these nodes play, ascending.
  std::vector<int> places_of(std::span<const int> nodes) const;
  // Gives vacant places to spare nodes, the lowest first, as far as they go.
  void fill();

  // Whether every lost place has one of its `copies` holders that is neither lost nor bare (holds
  // no copy yet). Both ascending.
  bool copies_survive(std::span<const int> lost, std::span<const int> bare, int copies) const;

  // The places that are played, ascending.
  std::vector<int> filled_places() const;

  // The longest run of neighbouring stages that the places belong to, the stages dealt to the
  // places in order.
  int adjacent_stages(std::span<const int> places, int stages) const;

 private:
  std::vector<int> node_of_;   // by place, -1 for none
  std::vector<int> place_of_;  // by node, -1 for none
  std::set<int> vacant_;
  std::set<int> spares_;
  int filled_ = 0;
  int stride_ = 1;
};

// Whether every state that the places `holders` had live is still there without `lost` of them,
// both ascending. Holders are dealt to the stages in order. Every state of a stage has live
// instances on `replicas` of its nodes when all `places` are played, and with fewer nodes as many
// as their room allows, so that fewer losses than that in a stage are survived whichever they are
// (experts/placement/replica_placement.h). What more a placement survives by chance is not counted.
bool replicas_survive(std::span<const int> holders, std::span<const int> lost, int stages,
                      int replicas, int places);

}  // namespace evermoe
