#include "worker/joiner_process.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "comm/transport/seated_transport.h"
#include "config/job_topology.h"

namespace evermoe {

absl::StatusOr<std::unique_ptr<JoinerProcess>> JoinerProcess::start(const JoinerWanted& wanted,
                                                                    const WorkerOptions& options,
                                                                    const JobConfig& config,
                                                                    Joiner::OnWhole on_whole) {
  if (wanted.rank.value < 0 || wanted.rank.value >= topology_of(config).world_size())
    return InvalidInput("the job has no such role");
  ASSIGN_OR_RETURN(const int leavers_seat, seat_in(wanted.leaver.address));
  WorkerOptions of_role = options;
  of_role.rank = wanted.rank;
  of_role.since = wanted.next;
  ASSIGN_OR_RETURN(auto seat, WorkerSeat::take(of_role, config, 1 - leavers_seat));
  return std::unique_ptr<JoinerProcess>(new JoinerProcess(wanted, config.protection.memory_budget,
                                                          std::move(seat), std::move(on_whole)));
}

JoinerProcess::JoinerProcess(const JoinerWanted& wanted, int64_t bytes_max,
                             std::shared_ptr<WorkerSeat> seat, Joiner::OnWhole on_whole)
    : wanted_(wanted),
      seat_(std::move(seat)),
      joiner_(wanted.rank, wanted.leaver, seat_->transport(), bytes_max, std::move(on_whole)),
      thread_([this] {
        const absl::Status served = joiner_.serve();
        if (!served.ok()) log_error(std::string(served.message()));
      }) {}

JoinerProcess::~JoinerProcess() {
  end();
  if (!is_taken_over_) seat_->transport().close();
}

std::vector<Chunk> JoinerProcess::take_over() {
  end();
  is_taken_over_ = true;
  return joiner_.take();
}

void JoinerProcess::end() {
  if (!thread_.joinable()) return;
  joiner_.stop();
  thread_.join();
}

}  // namespace evermoe
