#include "cli/commands/node_environment.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr int kPort = 29600;

// The first of these variables that is set.
std::string first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "";
}

absl::Status take_number(int& into, const std::string& text, const std::string& what) {
  if (text.empty()) {
    return InvalidInput(absl::StrCat("node: no ", what,
                                     ": give the flag, or start under torchrun, srun or mpirun"));
  }
  if (!absl::SimpleAtoi(text, &into))
    return InvalidInput(absl::StrCat("node: ", what, " is '", text, "', not a number"));
  return absl::OkStatus();
}

absl::Status find_controller(NodePlace& place) {
  const std::string host = first_set({"MASTER_ADDR"});
  if (host.empty()) return InvalidInput("node: no --join HOST:PORT and no MASTER_ADDR");
  int port = kPort;
  if (const std::string text = first_set({"MASTER_PORT"}); !text.empty()) {
    RETURN_IF_ERROR(take_number(port, text, "MASTER_PORT"));
    // torchrun's agent listens on that port itself.
    if (!first_set({"TORCHELASTIC_RUN_ID"}).empty()) ++port;
  }
  place.join = absl::StrCat(host, ":", port);
  return absl::OkStatus();
}

}  // namespace

absl::Status complete_from_environment(NodePlace& place) {
  if (place.node < 0) {
    RETURN_IF_ERROR(take_number(
        place.node, first_set({"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}),
        "--node (RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID)"));
  }
  if (place.nodes <= 0) {
    RETURN_IF_ERROR(take_number(place.nodes,
                                first_set({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}),
                                "--nodes (WORLD_SIZE, OMPI_COMM_WORLD_SIZE, SLURM_NTASKS)"));
  }
  if (place.node < 0 || place.node >= place.nodes) {
    return InvalidInput(absl::StrCat("--node: found ", place.node, ", allowed: integer from 0 to ",
                                     place.nodes - 1));
  }
  if (place.join.empty() && place.nodes > 1) RETURN_IF_ERROR(find_controller(place));
  if (place.listen.empty()) place.listen = place.join;
  return absl::OkStatus();
}

}  // namespace evermoe
