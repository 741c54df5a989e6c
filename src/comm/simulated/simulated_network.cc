#include "comm/simulated/simulated_network.h"

#include "base/check.h"
#include "comm/simulated/simulated_kernel.h"

namespace evermoe {

SimulatedNetwork::SimulatedNetwork(int ranks, SimulatedNetworkOptions options)
    : kernel_(std::make_unique<SimulatedKernel>(ranks, options)) {}

SimulatedNetwork::~SimulatedNetwork() = default;

ProcessNumber SimulatedNetwork::start(Rank rank, View since, std::vector<Thread> threads,
                                      Machine machine) {
  return ProcessNumber(kernel_->start(rank, since, std::move(threads), machine).group.number);
}

void SimulatedNetwork::add_thread(ProcessNumber process, Thread thread) {
  kernel_->add_thread(kernel_->process(process), std::move(thread));
}

void SimulatedNetwork::kill(ProcessNumber process) { kernel_->kill(kernel_->process(process)); }
void SimulatedNetwork::stop(ProcessNumber process) { kernel_->stop(kernel_->process(process)); }
void SimulatedNetwork::go_on(ProcessNumber process) { kernel_->go_on(kernel_->process(process)); }
void SimulatedNetwork::cut(ProcessNumber a, ProcessNumber b) {
  kernel_->cut(kernel_->process(a), kernel_->process(b));
}
void SimulatedNetwork::block(Machine from, Machine to, absl::Duration time) {
  kernel_->block(from, to, time);
}
void SimulatedNetwork::slow_down(Machine from, Machine to, absl::Duration more,
                                 absl::Duration more_of_byte) {
  kernel_->slow_down(from, to, more, more_of_byte);
}
void SimulatedNetwork::pause(absl::Duration time) {
  const bool never = false;
  kernel_->threads().block(never, time, [] { return std::string("a thread pauses"); });
}
bool SimulatedNetwork::lives(ProcessNumber process) const {
  return !kernel_->process(process).ended;
}

void SimulatedNetwork::on_end(ProcessNumber process, std::function<void()> what) {
  kernel_->on_end(kernel_->process(process), std::move(what));
}

std::optional<ProcessNumber> SimulatedNetwork::running_process() const {
  const SimulatedProcess* const process = kernel_->running_process();
  if (process == nullptr) return std::nullopt;
  return ProcessNumber(process->group.number);
}

void SimulatedNetwork::deliver(ProcessNumber process, Tag tag, std::span<const std::byte> bytes) {
  CHECK(tag.group == kServiceGroup) << "only service messages are delivered";
  SimulatedProcess& to = kernel_->process(process);
  if (!to.is_alive()) return;
  kernel_->threads().record('d', process.value, 0, tag.view.value, tag.group, tag.purpose);
  kernel_->threads().record(bytes);
  to.put_service_message(to.rank, tag, bytes);
}

void SimulatedNetwork::after(absl::Duration after, std::function<void()> event) {
  kernel_->threads().at(now() + after, std::move(event));
}

bool SimulatedNetwork::run() {
  return kernel_->threads().run([this] { kernel_->kill_all(); });
}

void SimulatedNetwork::end() { kernel_->threads().end(); }
absl::Duration SimulatedNetwork::now() const { return kernel_->threads().now(); }
uint64_t SimulatedNetwork::draw(uint64_t bound) { return kernel_->threads().draw(bound); }
int64_t SimulatedNetwork::calls(ProcessNumber process) const {
  return kernel_->process(process).calls;
}
Fingerprint SimulatedNetwork::transcript() const { return kernel_->threads().transcript(); }
SimulatedTraffic SimulatedNetwork::traffic() const { return kernel_->traffic(); }
int64_t SimulatedNetwork::lost_in_silence() const { return kernel_->lost_in_silence(); }
std::string SimulatedNetwork::waiting() const { return kernel_->threads().waiting(); }
int64_t SimulatedNetwork::switches() const { return kernel_->threads().switches(); }

}  // namespace evermoe
