#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/worker.h"

namespace evermoe {
namespace {

// The first of these variables that is set.
std::string first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "";
}

absl::Status take_number(int& into, const std::string& text, const std::string& what) {
  if (text.empty()) {
    return InvalidInput(absl::StrCat("worker: no ", what, ": give the flag, or start under torchrun, srun or mpirun"));
  }
  if (!absl::SimpleAtoi(text, &into)) return InvalidInput(absl::StrCat("worker: ", what, " is '", text, "', not a number"));
  return absl::OkStatus();
}

}  // namespace

absl::Status complete_from_environment(WorkerOptions& options) {
  if (options.rank.value < 0) {
    RETURN_IF_ERROR(take_number(options.rank.value, first_set({"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}),
                                "--rank (RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID)"));
  }
  if (options.world_size <= 0) {
    RETURN_IF_ERROR(take_number(options.world_size, first_set({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}),
                                "--world-size (WORLD_SIZE, OMPI_COMM_WORLD_SIZE, SLURM_NTASKS)"));
  }
  if (options.rendezvous.empty()) {
    const std::string host = first_set({"MASTER_ADDR"});
    if (host.empty()) return InvalidInput("worker: no --rendezvous HOST:PORT and no MASTER_ADDR");
    int port = 29600;
    if (const std::string text = first_set({"MASTER_PORT"}); !text.empty()) {
      RETURN_IF_ERROR(take_number(port, text, "MASTER_PORT"));
      // torchrun's agent listens on that port itself.
      if (!first_set({"TORCHELASTIC_RUN_ID"}).empty()) ++port;
    }
    options.rendezvous = absl::StrCat(host, ":", port);
    options.serve_rendezvous = options.rank == Rank(0);
  }
  if (options.rank.value < 0 || options.rank.value >= options.world_size) {
    return InvalidInput(absl::StrCat("worker: rank ", options.rank.value, " is not in 0 .. ", options.world_size - 1));
  }
  return absl::OkStatus();
}

}  // namespace evermoe
