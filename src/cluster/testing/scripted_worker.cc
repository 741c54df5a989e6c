// A worker without a trainer, for tests of the supervisor: speaks the report protocol, joins the
// rendezvous, steps in lockstep with the others over the real transport, and fails as told.
//
// OUT/script holds lines "steps N", "every N" (publish every N steps) and
// "ATTEMPT RANK STEP WHAT": before this rank's step STEP in its ATTEMPT-th start (from 0, -1: each)
// it does WHAT. Step 0 is before it joins the others, and so before it is ready.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "cluster/worker_report.h"
#include "comm/communicator.h"
#include "comm/rendezvous.h"
#include "comm/unix_transport.h"
#include "env/files.h"

namespace evermoe {
namespace {

using Kind = WorkerReport::Kind;
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kAlivePeriod = absl::Milliseconds(20);

std::atomic<bool> asked_to_drain{false};

class Reports {
 public:
  Reports(int fd, Rank rank) : fd_(fd), rank_(rank), alive_([this] { say_alive(); }) {}
  ~Reports() {
    stopping_.Notify();
    alive_.join();
  }
  void send(WorkerReport report) {
    report.rank = rank_;
    write_line(encode(report));
  }
  void write_line(const std::string& line) {
    const absl::MutexLock lock(&mutex_);
    if (::write(fd_, line.data(), line.size()) != std::ssize(line)) std::_Exit(3);
  }

 private:
  void say_alive() {
    do send({.kind = Kind::kAlive});
    while (!stopping_.WaitForNotificationWithTimeout(kAlivePeriod));
  }
  const int fd_;
  const Rank rank_;
  absl::Mutex mutex_;
  absl::Notification stopping_;
  std::thread alive_;
};

struct Script {
  int64_t steps = 10;
  int64_t every = 5;
  std::map<int64_t, std::string> deeds;  // by step, of this rank and attempt
};

class Worker {
 public:
  explicit Worker(std::map<std::string, std::string> flags)
      : flags_(std::move(flags)),
        rank_(std::stoi(flags_.at("--rank"))),
        world_size_(std::stoi(flags_.at("--world-size"))),
        reports_(std::stoi(flags_.at("--report-fd")), rank_) {}

  int run() {
    read_script();
    do_deed(0);
    const absl::Status status = work();
    if (status.ok()) return 0;
    fail(status);
    return exit_code(status);
  }

 private:
  std::string path(const std::string& name) const { return flags_.at("--out") + "/" + name; }

  void read_script() {
    const std::string starts = path("starts." + std::to_string(rank_.value));
    int64_t attempt = 0;
    std::ifstream(starts) >> attempt;
    std::ofstream(starts) << attempt + 1;
    std::ifstream lines(path("script"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string first;
      int64_t rank = 0, step = 0;
      if (!(words >> first)) continue;
      if (first == "steps") words >> script_.steps;
      else if (first == "every") words >> script_.every;
      else {
        std::string deed;
        words >> rank >> step >> deed;
        const int64_t when = std::stoll(first);
        if ((when == attempt || when == -1) && rank == rank_.value) script_.deeds[step] = deed;
      }
    }
  }

  absl::Status work() {
    ASSIGN_OR_RETURN(const auto listener, listen_unix({}));
    const RendezvousRequest request{flags_.at("--rendezvous"), rank_, world_size_, listener->address(), "same"};
    ASSIGN_OR_RETURN(const auto addresses, join_rendezvous(request, kPatience));
    ASSIGN_OR_RETURN(const auto transport, listener->connect(rank_, addresses, kPatience));
    std::vector<Rank> all;
    for (int i = 0; i < world_size_; ++i) all.push_back(Rank(i));
    CommunicatorOptions options;
    options.deadline = kPatience;
    Communicator world(*transport, all, options);
    RETURN_IF_ERROR(train(world));
    transport->close();
    return absl::OkStatus();
  }

  absl::Status train(Communicator& world) {
    int64_t step = 0;
    std::ifstream(path("published")) >> step;
    // Nobody writes a new one before everybody has read this one.
    RETURN_IF_ERROR(world.barrier());
    reports_.send({.kind = Kind::kReady, .step = Step(step), .text = "published"});
    int64_t drain = 0;
    while (step < script_.steps && drain == 0) {
      do_deed(++step);
      drain = asked_to_drain ? 1 : 0;
      RETURN_IF_ERROR(world.all_reduce(std::span(&drain, 1), ReduceOp::kMax));
      RETURN_IF_ERROR(after_step(step, drain != 0 || step == script_.steps));
    }
    WorkerReport finished{.kind = Kind::kFinished, .step = Step(step)};
    finished.drained = step < script_.steps;
    reports_.send(finished);
    return absl::OkStatus();
  }

  absl::Status after_step(int64_t step, bool last) {
    if (rank_ != Rank(0)) return absl::OkStatus();
    WorkerReport report{.kind = Kind::kStep, .step = Step(step)};
    report.loss = 1.0 / static_cast<double>(step);
    reports_.send(report);
    if (!last && step % script_.every != 0) return absl::OkStatus();
    RETURN_IF_ERROR(replace_file(real_files(), path("published"), std::to_string(step)));
    reports_.send({.kind = Kind::kPublished, .step = Step(step)});
    return absl::OkStatus();
  }

  void do_deed(int64_t step) {
    const auto at = script_.deeds.find(step);
    if (at == script_.deeds.end()) return;
    const std::string& deed = at->second;
    std::cerr << "about to " << deed << std::endl;
    if (deed == "die") raise(SIGKILL);
    if (deed == "crash") std::abort();
    if (deed == "stop") raise(SIGSTOP);
    if (deed == "stall") pause_for_ever();
    if (deed == "babble") reports_.write_line("no report\n");
    if (deed == "leave") std::_Exit(0);
    if (deed == "fail") std::_Exit(fail(Internal("the disk is full")));
    if (deed == "refuse") std::_Exit(fail(InvalidInput("data.path: found nothing")));
  }

  int fail(const absl::Status& status) {
    WorkerReport failed{.kind = Kind::kFailed, .text = std::string(status.message())};
    failed.accused = accused_rank(status);
    failed.bad_input = absl::IsInvalidArgument(status);
    reports_.send(failed);
    return exit_code(status);
  }

  [[noreturn]] static void pause_for_ever() {
    while (true) ::pause();
  }

  const std::map<std::string, std::string> flags_;
  const Rank rank_;
  const int world_size_;
  Reports reports_;
  Script script_;
};

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { evermoe::asked_to_drain = true; });
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]).rfind("--", 0) == 0) flags[argv[i]] = argv[i + 1];
  }
  return evermoe::Worker(flags).run();
}
