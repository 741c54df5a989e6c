// A simulated worker's line to its agent: does with a ControlNetwork what ControlClient does with a
// ControlCall (control/wire/control_client.h, whose handlers it takes).
#pragma once

#include "control/wire/control_client.h"
#include "sim/control_network.h"

namespace evermoe {

class WorkerControlLine final : public ControlLink, private StreamEvents {
 public:
  // `network` outlives it.
  WorkerControlLine(ControlNetwork& network, Machine machine, ControlClientOptions options)
      : network_(network), options_(std::move(options)), process_(network.begin(machine, *this)) {}
  ~WorkerControlLine() override { network_.end(process_); }

  void attach(pid_t pid, ControlHandlers handlers, absl::Duration heartbeat);
  void send(MemberMessage message) override {
    put(MemberSaid{options_.rank, options_.since, std::move(message)});
  }

  void report(WorkerReport report) {
    report.rank = options_.rank;
    put(std::move(report));
  }

  ControlProcess process() const { return process_; }

 private:
  void on_envelope(StreamNumber, Envelope envelope) noexcept override;
  void on_broken(StreamNumber, const std::string& why) noexcept override { handlers_.on_lost(why); }
  void put(ControlMessage message);
  void beat();

  ControlNetwork& network_;
  const ControlClientOptions options_;
  const ControlProcess process_;
  ControlHandlers handlers_;
  absl::Duration heartbeat_;
  StreamNumber call_;  // 0: not attached yet
};

}  // namespace evermoe
