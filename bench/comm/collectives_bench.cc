// How long does a collective take among processes of one machine?
//
//   collectives_bench [--ranks 4] [--transport unix|ucx] [--batches 9] [--scale 1]
//                     [--call all_reduce]
//
// `--call message`, which has to be asked for, has ranks 0 and 1 send one message there and back,
// of 64 KiB, 1 MiB and 32 MiB; the time is that of one way.
//
// Real processes, one thread each. For every call and size: a warm-up, then `batches` batches of
// calls with a barrier before each; printed is the median over batches of the time per call on rank
// 0, in microseconds, and its processor time alone, which other load disturbs less. `--scale 0.1`
// makes a tenth of the calls, for a quick check.
//
// What to expect on 2 cores with 4 processes: a 4 KB all_reduce is 12 messages and about as many
// switches of processes, 30 to 100 us. A 16 MB all_reduce moves 96 MB through the kernel, in and
// out: at 4 GB/s per core about 25 to 50 ms.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "comm/communicator.h"
#include "rank_processes.h"

namespace evermoe {
namespace {

struct Options {
  int ranks = 4;
  std::string transport = "unix";
  int batches = 9;
  double scale = 1;
  std::string call;  // only this one, if not empty
};

struct Times {
  double wall_us = 0;
  double cpu_us = 0;
};

struct Case {
  std::string call;
  size_t bytes;
  int calls_per_batch;
};

const std::vector<Case> kCases = {
    {"all_reduce", 4 << 10, 300},  {"all_reduce", 256 << 10, 60}, {"all_reduce", 16 << 20, 3},
    {"all_gather", 256 << 10, 60}, {"all_to_all", 256 << 10, 60},
};
constexpr const char* kMessage = "message";
const std::vector<Case> kMessageCases = {
    {kMessage, 64 << 10, 400},
    {kMessage, 1 << 20, 100},
    {kMessage, 32 << 20, 6},
};

// A message from rank 0 to rank 1 and, by the next call, back.
std::function<void()> prepare_message(size_t bytes, Communicator& world) {
  const auto buffer = std::make_shared<std::vector<std::byte>>(bytes);
  const auto is_on_its_way_back = std::make_shared<bool>(false);
  return [&world, buffer, is_on_its_way_back] {
    const int sender = *is_on_its_way_back ? 1 : 0;
    *is_on_its_way_back = !*is_on_its_way_back;
    if (world.index() > 1) return;
    CHECK_OK((world.index() == sender ? world.start_send(1 - sender, 1, *buffer)
                                      : world.start_receive(sender, 1, *buffer))
                 .wait());
  };
}

// One call of a case, on buffers of its own.
std::function<void()> prepare(const Case& item, Communicator& world) {
  if (item.call == kMessage) return prepare_message(item.bytes, world);
  const auto size = static_cast<size_t>(world.size());
  const auto floats = std::make_shared<std::vector<float>>(item.bytes / sizeof(float), 1.0f);
  const auto received = std::make_shared<std::vector<float>>(*floats);
  if (item.call == "all_reduce") {
    // The greatest, so that repeating the call does not overflow; it costs the same as the sum.
    return [&world, floats] { CHECK_OK(world.all_reduce<float>(*floats, ReduceOp::kMax)); };
  }
  std::vector<int64_t> begins;
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (size_t i = 0; i < size; ++i) {
    const size_t begin = item.bytes * i / size;
    const size_t length = item.bytes * (i + 1) / size - begin;
    begins.push_back(static_cast<int64_t>(begin));
    sends.push_back(std::as_bytes(std::span(*floats)).subspan(begin, length));
    receives.push_back(std::as_writable_bytes(std::span(*received)).subspan(begin, length));
  }
  begins.push_back(static_cast<int64_t>(item.bytes));
  if (item.call == "all_gather") {
    return [&world, floats, begins] {
      CHECK_OK(world.all_gather(std::as_writable_bytes(std::span(*floats)), begins));
    };
  }
  return
      [&world, floats, received, sends, receives] { CHECK_OK(world.all_to_all(sends, receives)); };
}

double cpu_us() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) {
    return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

Times measure(const Case& item, const Options& options, Communicator& world) {
  const std::function<void()> call = prepare(item, world);
  const int calls = std::max(1, static_cast<int>(item.calls_per_batch * options.scale));
  for (int i = 0; i < std::max(2, calls / 4); ++i) call();
  std::vector<double> us;
  const double cpu_before = cpu_us();
  for (int batch = 0; batch < options.batches; ++batch) {
    CHECK_OK(world.barrier());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    us.push_back(took.count() / calls);
  }
  return {median(us), (cpu_us() - cpu_before) / (calls * options.batches)};
}

void run_rank(Transport& transport, const Options& options) {
  std::vector<Rank> members;
  for (int i = 0; i < options.ranks; ++i) members.push_back(Rank(i));
  Communicator world(transport, members, {.view = View(1)});
  nlohmann::json results = nlohmann::json::array();
  for (const Case& item : options.call == kMessage ? kMessageCases : kCases) {
    if (!options.call.empty() && item.call != options.call) continue;
    const Times times = measure(item, options, world);
    results.push_back({{"call", item.call},
                       {"bytes", item.bytes},
                       {"us", times.wall_us},
                       {"cpu_us", times.cpu_us}});
  }
  CHECK_OK(world.barrier());
  if (transport.rank() != Rank(0)) return;
  const nlohmann::json report = {{"library", "evermoe"},
                                 {"transport", options.transport},
                                 {"ranks", options.ranks},
                                 {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
                                 {"results", results}};
  std::puts(report.dump().c_str());
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  evermoe::enter_ucx_environment(argv);
  evermoe::Options options;
  CLI::App app("Times collectives among processes of this machine");
  app.add_option("--ranks", options.ranks)->check(CLI::Range(1, 64));
  app.add_option("--transport", options.transport)->check(CLI::IsMember({"unix", "ucx", "auto"}));
  app.add_option("--batches", options.batches)->check(CLI::Range(1, 1000));
  app.add_option("--scale", options.scale)->check(CLI::Range(0.001, 100.0));
  app.add_option("--call", options.call)
      ->check(CLI::IsMember({"all_reduce", "all_gather", "all_to_all", "message"}));
  CLI11_PARSE(app, argc, argv);
  return evermoe::run_rank_processes(
      options.ranks, options.transport,
      [&](evermoe::Transport& transport) { evermoe::run_rank(transport, options); });
}
