#include "sim/workers/worker_line.h"

#include <utility>

namespace evermoe {

void WorkerControlLine::attach(pid_t pid, ControlHandlers handlers, absl::Duration heartbeat) {
  heartbeat_ = heartbeat;
  handlers_ = std::move(handlers);
  call_ = network_.call(process_, options_.agent);
  put(WorkerHello{pid});
  beat();
}

void WorkerControlLine::put(ControlMessage message) {
  if (call_.value > 0 && network_.lives(process_))
    network_.send(process_, call_, {0, std::move(message)});
}

void WorkerControlLine::on_envelope(StreamNumber, Envelope envelope) noexcept {
  if (std::holds_alternative<Welcome>(envelope.message)) {
    MemberJoined joined = handlers_.describe();
    joined.rank = options_.rank;
    joined.since = options_.since;
    put(std::move(joined));
    return handlers_.on_registered();
  }
  if (auto* const order = std::get_if<SendOrder>(&envelope.message))
    handlers_.on_order(std::move(order->message));
  if (const auto* const relieved = std::get_if<BecomeStandby>(&envelope.message))
    handlers_.on_relieved(*relieved);
}

void WorkerControlLine::beat() {
  put(MemberAlive{options_.rank, options_.since, handlers_.entered(), handlers_.waits(),
                  handlers_.take_step_times(), handlers_.take_link_times()});
  network_.after(process_, heartbeat_, [this] { beat(); });
}

}  // namespace evermoe
