// What a standby does while it waits for a certain role: keeps what the process that plays it gives
// it (recovery/member/joiner.h).
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "config/job_config.h"
#include "control/controller/controller_interface.h"
#include "recovery/member/joiner.h"
#include "worker/worker_seat.h"

namespace evermoe {

class JoinerProcess {
 public:
  // Is there from now on, at address(), in the seat of its role in which the leaver is not.
  // `on_whole` is called by a thread of its own.
  static absl::StatusOr<std::unique_ptr<JoinerProcess>> start(const JoinerWanted& wanted,
                                                              const WorkerOptions& options,
                                                              const JobConfig& config,
                                                              Joiner::OnWhole on_whole);
  // Leaves its seat, unless it has been taken over.
  ~JoinerProcess();

  PeerAddress address() const { return {seat_->address(), wanted_.next}; }
  // For the process that will play the role with it.
  const std::shared_ptr<WorkerSeat>& seat() const { return seat_; }
  bool is_for(Rank role, View since) const { return role == wanted_.rank && since == wanted_.next; }
  // What it has been given. Nothing comes any more, and who plays the role has the seat.
  std::vector<Chunk> take_over();

 private:
  JoinerProcess(const JoinerWanted& wanted, int64_t bytes_max, std::shared_ptr<WorkerSeat> seat,
                Joiner::OnWhole on_whole);
  void end();

  const JoinerWanted wanted_;
  const std::shared_ptr<WorkerSeat> seat_;
  Joiner joiner_;
  bool is_taken_over_ = false;
  std::thread thread_;
};

}  // namespace evermoe
