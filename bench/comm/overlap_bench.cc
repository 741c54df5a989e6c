// How much of a message's way is hidden behind the computing of sender and receiver?
//
//   overlap_bench [--transport unix|ucx] [--rounds 15] [--compute-ms 200]
//
// Two processes with a thread each that computes (products of small matrices, always the same
// number of them). A round measures four things of each size one after the other, so that a machine
// that is slow for a while is slow for all of them:
//   blocking  both do nothing else: from the start until the receiver has the message
//   compute   both compute, and no message is under way
//   both      the sender starts to send, the receiver to receive, both compute, then both wait
//   lopsided  only the sender computes: when does the receiver, which waits, have the message?
// hidden = 1 - (longest wait after computing) / blocking; median over the rounds. What moving the
// bytes takes from the cores (a copy into the kernel and one out of it) is no wait but work: it is
// in cpu_ms, the processor time of both processes beyond that of computing.
//
// What to expect: AF_UNIX moves 2 to 4 GB/s, 1 to 2 ms for 4 MiB, which 200 ms of computing hide
// wholly if anybody moves them meanwhile. If bytes moved in wait() only, all but a socket buffer
// would be left: nothing hidden, and the lopsided receiver would wait for the sender's 200 ms.
#include <sys/resource.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "comm/communicator.h"
#include "rank_processes.h"

namespace evermoe {
namespace {

constexpr int kSide = 96;

struct Options {
  std::string transport = "unix";
  int rounds = 15;
  int compute_ms = 200;
  std::vector<size_t> bytes = {256 << 10, 4 << 20, 32 << 20};
};

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double cpu_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// Work that occupies a core: its time does not depend on its values.
class Work {
 public:
  Work() : a_(kSide * kSide, 1e-3f), b_(kSide * kSide, 1e-3f), c_(kSide * kSide) {}

  // How many products take `ms`.
  int products_in(double ms) {
    run(200);
    const double start = now_ms();
    run(1000);
    return static_cast<int>(ms * 1000 / (now_ms() - start)) + 1;
  }

  void run(int products) {
    for (int i = 0; i < products; ++i) multiply();
  }

 private:
  void multiply() {
    for (int row = 0; row < kSide; ++row) {
      float* const out = &c_[static_cast<size_t>(row * kSide)];
      for (int k = 0; k < kSide; ++k) {
        const float factor = a_[static_cast<size_t>(row * kSide + k)];
        const float* const in = &b_[static_cast<size_t>(k * kSide)];
        for (int column = 0; column < kSide; ++column)
          out[column] = out[column] * 0.5f + factor * in[column];
      }
    }
  }

  std::vector<float> a_, b_, c_;
};

// Of one rank; the greatest of both is what counts.
struct Sample {
  double wall_ms = 0;
  double wait_ms = 0;
  double cpu_ms = 0;
};

struct Round {
  Sample blocking, compute, both, lopsided;
};

class Measurement {
 public:
  Measurement(Communicator& world, Work& work, int products, size_t bytes)
      : world_(world), work_(work), products_(products), buffer_(bytes) {}

  Round round() {
    return {sample(true, false, false), sample(false, true, true), sample(true, true, true),
            sample(true, true, false)};
  }

 private:
  Sample sample(bool has_message, bool sender_computes, bool receiver_computes) {
    const bool is_sender = world_.index() == 0;
    CHECK_OK(world_.barrier());
    const double start = now_ms(), cpu_start = cpu_ms();
    PendingMessage message;
    if (has_message)
      message = is_sender ? world_.start_send(1, 1, buffer_) : world_.start_receive(0, 1, buffer_);
    if (is_sender ? sender_computes : receiver_computes) work_.run(products_);
    const double computed = now_ms();
    CHECK_OK(message.wait());
    const double end = now_ms();
    Sample own{end - start, end - computed, cpu_ms() - cpu_start};
    // What the receiver of a lopsided exchange waits for is what it measures.
    if (sender_computes && !receiver_computes && is_sender) own = {0, 0, own.cpu_ms};
    std::vector<double> values = {own.wall_ms, own.wait_ms};
    CHECK_OK(world_.all_reduce<double>(values, ReduceOp::kMax));
    std::vector<double> cpu = {own.cpu_ms};
    CHECK_OK(world_.all_reduce<double>(cpu, ReduceOp::kSum));
    return {values[0], values[1], cpu[0]};
  }

  Communicator& world_;
  Work& work_;
  const int products_;
  std::vector<std::byte> buffer_;
};

template <typename Pick>
std::vector<double> column(const std::vector<Round>& rounds, Pick pick) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(pick(round));
  std::sort(values.begin(), values.end());
  return values;
}

nlohmann::json report(size_t bytes, const std::vector<Round>& rounds) {
  const auto of = [&](auto pick) { return column(rounds, pick); };
  const auto compute = of([](const Round& r) { return r.compute.wall_ms; });
  const double blocking = median(of([](const Round& r) { return r.blocking.wall_ms; }));
  const auto wait = of([](const Round& r) { return r.both.wait_ms; });
  return {{"bytes", bytes},
          {"blocking_ms", blocking},
          {"compute_ms", median(compute)},
          {"compute_ms_p10", compute[compute.size() / 10]},
          {"compute_ms_p90", compute[compute.size() * 9 / 10]},
          {"both_ms", median(of([](const Round& r) { return r.both.wall_ms; }))},
          {"wait_after_compute_ms", median(wait)},
          {"hidden", 1 - median(wait) / blocking},
          {"lopsided_arrival_ms", median(of([](const Round& r) { return r.lopsided.wait_ms; }))},
          {"cpu_ms", median(of([](const Round& r) { return r.both.cpu_ms - r.compute.cpu_ms; }))}};
}

void run_rank(Transport& transport, const Options& options) {
  Communicator world(transport, {Rank(0), Rank(1)}, {.view = View(1)});
  Work work;
  std::vector<int64_t> products = {work.products_in(options.compute_ms)};
  CHECK_OK(world.all_reduce<int64_t>(products, ReduceOp::kMin));
  nlohmann::json results = nlohmann::json::array();
  for (const size_t bytes : options.bytes) {
    Measurement measurement(world, work, static_cast<int>(products[0]), bytes);
    measurement.round();
    std::vector<Round> rounds;
    for (int i = 0; i < options.rounds; ++i) rounds.push_back(measurement.round());
    results.push_back(report(bytes, rounds));
  }
  CHECK_OK(world.barrier());
  if (world.index() != 0) return;
  utsname system{};
  ::uname(&system);
  double load[1] = {0};
  ::getloadavg(load, 1);
  const nlohmann::json report = {
      {"benchmark", "overlap"},   {"transport", options.transport},
      {"system", system.release}, {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
      {"load", load[0]},          {"rounds", options.rounds},
      {"goal_hidden", 0.9},       {"results", results}};
  std::puts(report.dump().c_str());
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  evermoe::enter_ucx_environment(argv);
  evermoe::Options options;
  CLI::App app("Measures how much of a message's way is hidden behind computing");
  app.add_option("--transport", options.transport)->check(CLI::IsMember({"unix", "ucx"}));
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--compute-ms", options.compute_ms)->check(CLI::Range(1, 10000));
  app.add_option("--bytes", options.bytes)->check(CLI::Range(1, 1 << 30));
  CLI11_PARSE(app, argc, argv);
  return evermoe::run_rank_processes(2, options.transport, [&](evermoe::Transport& transport) {
    evermoe::run_rank(transport, options);
  });
}
