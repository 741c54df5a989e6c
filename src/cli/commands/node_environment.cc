#include "cli/commands/node_environment.h"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/limits.h"
#include "cli/commands/host_list.h"

namespace evermoe {
namespace {

std::string first_set(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

absl::Status take_number(int& into, const std::string& text, const std::string& what) {
  if (text.empty()) {
    return InvalidInput(
        absl::StrCat("node: no ", what, ": give the flag, or start under a launcher that says it"));
  }
  if (!absl::SimpleAtoi(text, &into))
    return InvalidInput(absl::StrCat("node: ", what, " is '", text, "', not a number"));
  return absl::OkStatus();
}

// "3" for "trainer-3", the name of a StatefulSet's pod; empty outside of Kubernetes.
std::string ordinal(const Environment& environment, const std::string& host_name) {
  if (environment("KUBERNETES_SERVICE_HOST").empty()) return "";
  const std::string name = host_name.substr(0, host_name.find('.'));
  const size_t dash = name.rfind('-');
  int number = 0;
  const std::string end = dash == std::string::npos ? "" : name.substr(dash + 1);
  return absl::SimpleAtoi(end, &number) && number >= 0 ? end : "";
}

// Slurm's number of the machine is that of the node, so there is one task on each.
absl::Status check_tasks(const Environment& environment) {
  int tasks = 1, nodes = 1;
  const std::string said = first_set(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  if (said.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(take_number(tasks, said, "the number of tasks (SLURM_NTASKS)"));
  RETURN_IF_ERROR(take_number(
      nodes, first_set(environment, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_NTASKS"}),
      "the number of machines (SLURM_NNODES)"));
  if (tasks <= nodes) return absl::OkStatus();
  return InvalidInput(absl::StrCat("node: Slurm has started ", tasks, " tasks on ", nodes,
                                   nodes == 1 ? " machine" : " machines",
                                   ", allowed: one on each (srun --ntasks-per-node=1)"));
}

absl::StatusOr<std::string> host_of_controller(const Environment& environment) {
  if (std::string host = environment("MASTER_ADDR"); !host.empty()) return host;
  const std::string list =
      first_set(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!list.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> hosts, expand_host_list(list));
    return hosts.front();
  }
  const std::string all = environment("OMPI_COMM_WORLD_SIZE");
  if (!all.empty() && environment("OMPI_COMM_WORLD_LOCAL_SIZE") == all) return "127.0.0.1";
  return InvalidInput(
      "node: no --join HOST:PORT, and neither MASTER_ADDR nor Slurm's list of nodes says where "
      "node "
      "0 is");
}

absl::Status find_controller(const Environment& environment, NodePlace& place) {
  ASSIGN_OR_RETURN(const std::string host, host_of_controller(environment));
  int port = kControllerPort;
  if (const std::string text = environment("MASTER_PORT"); !text.empty()) {
    RETURN_IF_ERROR(take_number(port, text, "MASTER_PORT"));
    // torchrun's agent listens on that port itself.
    if (!environment("TORCHELASTIC_RUN_ID").empty()) ++port;
  }
  place.join = absl::StrCat(host, ":", port);
  return absl::OkStatus();
}

// Its own numbers come first: below it Slurm's are those of its daemons.
bool has_other_launcher(const Environment& environment) {
  return !first_set(environment, {"RANK", "OMPI_COMM_WORLD_RANK"}).empty();
}

absl::Status find_number(const Environment& environment, const std::string& host_name,
                         NodePlace& place) {
  std::string number = first_set(environment, {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_NODEID",
                                               "PMIX_RANK", "JOB_COMPLETION_INDEX"});
  if (number.empty()) number = ordinal(environment, host_name);
  if (!has_other_launcher(environment)) RETURN_IF_ERROR(check_tasks(environment));
  return take_number(place.node, number,
                     "--node (RANK, OMPI_COMM_WORLD_RANK, SLURM_NODEID, JOB_COMPLETION_INDEX)");
}

}  // namespace

absl::Status check_address(const std::string& what, const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon != std::string::npos && colon > 0 &&
      absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 1 && port <= 65535)
    return absl::OkStatus();
  return InvalidInput(absl::StrCat(what, ": found \"", address,
                                   "\", allowed: HOST:PORT, with a port from 1 to 65535"));
}

absl::Status complete_from(const Environment& environment, const std::string& host_name,
                           NodePlace& place) {
  if (place.node < 0) RETURN_IF_ERROR(find_number(environment, host_name, place));
  if (place.nodes <= 0) {
    RETURN_IF_ERROR(take_number(place.nodes,
                                first_set(environment, {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                                        "SLURM_STEP_NUM_NODES", "SLURM_NNODES"}),
                                "--nodes (WORLD_SIZE, OMPI_COMM_WORLD_SIZE, SLURM_NNODES)"));
  }
  const int last = place.may_come_later ? kJobNodesMax - 1 : place.nodes - 1;
  if (place.node < 0 || place.node > last) {
    return InvalidInput(
        absl::StrCat("--node: found ", place.node, ", allowed: integer from 0 to ", last));
  }
  if (place.join.empty() && place.nodes > 1) RETURN_IF_ERROR(find_controller(environment, place));
  if (place.listen.empty()) place.listen = place.join;
  if (place.listen.empty()) return absl::OkStatus();  // alone
  RETURN_IF_ERROR(check_address("--join (MASTER_ADDR, MASTER_PORT)", place.join));
  return check_address("--listen", place.listen);
}

absl::Status complete_from_environment(NodePlace& place) {
  char host[256] = {};
  (void)!::gethostname(host, sizeof(host) - 1);
  return complete_from(
      [](const char* variable) {
        const char* const value = std::getenv(variable);
        return std::string(value == nullptr ? "" : value);
      },
      host, place);
}

}  // namespace evermoe
