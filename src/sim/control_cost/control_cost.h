// What the control plane of a large job costs its controller.
//
// The real controller and the real agents of all machines; members are scripted: they answer as
// members do, and compute nothing. Every envelope to and from the controller is encoded and decoded
// as on the wire. What the network and the kernel do with the bytes is not in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace evermoe {

struct ControlCostOptions {
  int machines = 1024;  // that play roles; there are two spares besides
  int roles_per_machine = 4;
  int lanes_max = 64;  // of a stage: the job has as many stages as that takes, at least two
};

// One stretch of the job's life.
struct ControlCost {
  std::string what;
  int64_t messages_in = 0, messages_out = 0;  // of the controller
  int64_t bytes_in = 0, bytes_out = 0;
  int64_t agent_bytes = 0;  // that the agent which says most says, to the controller and to others
  double seconds = 0;       // that the controller computed, on this machine
  // Of the job's own time; nullopt: as long as it takes.
  std::optional<double> job_seconds;

  int64_t messages() const { return messages_in + messages_out; }
  int64_t bytes() const { return bytes_in + bytes_out; }
};

// The beginning, a minute of steps, the loss of a machine, another controller, and the loss of
// another machine. A CHECK if the job does not go on after each.
std::vector<ControlCost> measure_control_cost(const ControlCostOptions& options);

}  // namespace evermoe
