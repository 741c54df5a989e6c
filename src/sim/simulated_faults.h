// Lets the faults of a simulated job fire, each at its time or at its point.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/simulated/simulated_network.h"
#include "sim/control_network.h"
#include "sim/control_plane.h"
#include "sim/simulated_disk.h"
#include "sim/simulated_fault.h"
#include "sim/workers/simulated_workers.h"

namespace evermoe {

// By point and rank; rank -1: any.
using PointPassings = std::map<std::pair<std::string, int32_t>, int64_t>;

// What can fail. All of it outlives the faults.
struct SimulatedMachines {
  int nodes = 0;  // spares too
  SimulatedNetwork& network;
  ControlNetwork& control;
  SimulatedWorkers& workers;
  ControlPlane& plane;
  SimulatedDisk& disk;
};

class SimulatedFaults {
 public:
  // `tell`: a line of the story. `mark`: a rare path was taken.
  SimulatedFaults(std::vector<SimulatedFault> faults, SimulatedMachines machines,
                  std::function<void(const std::string&)> tell,
                  std::function<void(const std::string&)> mark)
      : faults_(std::move(faults)), in_(machines), tell_(std::move(tell)), mark_(std::move(mark)) {}

  // Those that have a time; to be called before the network runs.
  void schedule();
  // The running thread passes a point (base/fault_point.h).
  void pass_point(const char* point);
  // How often each point was passed.
  const PointPassings& passings() const { return passings_; }

 private:
  void inject(const SimulatedFault& fault);
  void move_roles(MoveWanted wish);
  void inject_node_fault(const SimulatedFault& fault);
  void inject_worker_fault(const SimulatedFault& fault);
  void inject_line_fault(const SimulatedFault& fault);
  void inject_line_fault(const SimulatedFault& fault, Machine node, Machine peer);
  void inject_store_fault(const SimulatedFault& fault);
  void cut_agents(const SimulatedFault& fault);
  void cut_workers(const SimulatedFault& fault);

  const std::vector<SimulatedFault> faults_;
  const SimulatedMachines in_;
  const std::function<void(const std::string&)> tell_;
  const std::function<void(const std::string&)> mark_;
  PointPassings passings_;
};

}  // namespace evermoe
