// How fast is a durable checkpoint saved and loaded, and how long does training stand still?
//
//   save_load_bench --directory D --ranks R --bytes N --rounds K [--threads T --block BYTES]
//
// R processes hold N bytes of random optimizer state together. In each round they save it (stall =
// the slowest begin(); save = from the call until the checkpoint is published and durable), then
// load it into memory that exists already, first with a cold page cache, then with a warm one.
// Prints one JSON line per round. Beside training nothing but the copy to staging must be seen; the
// copy runs at 5 to 10 GB/s, and the save at the disk's own speed because it is written while it is
// copied.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "checkpoint/write/checkpoint_saver.h"
#include "env/clock.h"
#include "env/process.h"

namespace evermoe {
namespace {

constexpr int kOperators = 64;
constexpr absl::Duration kDeadline = absl::Minutes(5);

struct Options {
  std::string directory;
  int ranks = 4;
  int rank = -1;  // -1: the process that measures
  int64_t bytes = 1 << 30;
  int rounds = 5;
  int threads = 2;
  int64_t block = 8 << 20;
};

// Text lines between the measuring process and a rank.
class Line {
 public:
  Line(int in, int out) : in_(in), out_(out) {}
  void send(const std::string& text) {
    const std::string line = text + "\n";
    CHECK(::write(out_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }
  // Dies where the other side is gone or silent.
  std::string receive() {
    std::string line;
    for (char c; line.empty() || line.back() != '\n'; line.push_back(c)) {
      pollfd waiting{in_, POLLIN, 0};
      CHECK(::poll(&waiting, 1, 300'000) == 1) << "nothing was said for five minutes";
      if (::read(in_, &c, 1) != 1) ::_exit(0);  // the measuring process ended
    }
    line.pop_back();
    return line;
  }

 private:
  int in_;
  int out_;
};

double seconds_since(absl::Duration start) {
  return absl::ToDoubleSeconds(real_clock().now() - start);
}

// One rank's state: `kOperators` operators, each shared evenly by all ranks.
class RankState {
 public:
  explicit RankState(const Options& options) : options_(options) {
    flat_size_ = options.bytes / (kOperators * kStatePartCount * 4) /
                 (kFlatAlignment * options.ranks) * (kFlatAlignment * options.ranks);
    range_ = shard_range(flat_size_, options.ranks, options.rank);
    size_ = static_cast<size_t>(kOperators * kStatePartCount * range_.size() * 4);
    void* memory =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    bytes_ = {static_cast<std::byte*>(memory), size_};
    uint64_t value = 88172645463325252u + static_cast<uint64_t>(options.rank);
    for (size_t at = 0; at + 8 <= size_; at += 8) {
      value ^= value << 13, value ^= value >> 7, value ^= value << 17;
      std::memcpy(&bytes_[at], &value, 8);
    }
  }
  size_t size() const { return size_; }
  FlatRange range() const { return range_; }
  static std::string name(int op) { return absl::StrFormat("layer.%02d.expert.0", op); }
  std::span<std::byte> part(int op, StatePart part) {
    const size_t each = static_cast<size_t>(range_.size() * 4);
    return bytes_.subspan(
        (static_cast<size_t>(op) * kStatePartCount + static_cast<size_t>(part)) * each, each);
  }
  std::vector<ShardSource> shards() {
    std::vector<ShardSource> result;
    for (int op = 0; op < kOperators; ++op) {
      result.push_back({name(op), flat_size_, range_,
                        [this, op](StatePart which, std::span<std::byte> into) {
                          std::memcpy(into.data(), part(op, which).data(), into.size());
                        },
                        nullptr});
    }
    return result;
  }

 private:
  const Options options_;
  int64_t flat_size_ = 0;
  FlatRange range_;
  size_t size_ = 0;
  std::span<std::byte> bytes_;
};

void load(const Options& options, RankState& state) {
  auto reader = CheckpointReader::open(real_files(), options.directory);
  CHECK_OK(reader.status());
  for (int op = 0; op < kOperators; ++op) {
    for (StatePart part : kStateParts) {
      CHECK_OK((*reader)->read(RankState::name(op), part, state.range(), state.part(op, part)));
    }
  }
}

// The rank's side: does what it is told.
int serve(const Options& options) {
  RankState state(options);
  SaverOptions saving;
  saving.directory = options.directory;
  saving.rank = options.rank;
  saving.world_size = options.ranks;
  saving.keep_newest = 1000;  // the measuring process removes them between rounds
  saving.staging_bytes = static_cast<int64_t>(state.size()) + (1 << 20);
  saving.block_bytes = options.block;
  saving.write_threads = options.threads;
  auto saver = CheckpointSaver::open(real_files(), saving);
  CHECK_OK(saver.status());
  const std::vector<ShardSource> shards = state.shards();
  Line line(0, 1);
  line.send("ready");
  TrainingPosition position;
  for (;;) {
    const std::string order = line.receive();
    const absl::Duration start = real_clock().now();
    if (order == "save") {
      position.step.value += 1;
      CHECK_OK((*saver)->begin(position, shards));
      line.send(absl::StrCat(seconds_since(start)));
      CHECK_OK((*saver)->wait_prepared(kDeadline));
    } else if (order == "publish") {
      (*saver)->publish(position.step);
      CHECK_OK((*saver)->wait_published(kDeadline));
    } else if (order == "load") {
      load(options, state);
    }
    line.send("done");
  }
}

struct RankProcess {
  std::unique_ptr<ChildProcess> process;
  Line line;
};

RankProcess start_rank(const Options& options, int rank) {
  int orders[2];
  int answers[2];
  CHECK(::pipe2(orders, O_CLOEXEC) == 0 && ::pipe2(answers, O_CLOEXEC) == 0);
  SpawnOptions spawning;
  spawning.program = "/proc/self/exe";
  spawning.arguments = {"--directory", options.directory,
                        "--rank",      absl::StrCat(rank),
                        "--ranks",     absl::StrCat(options.ranks),
                        "--bytes",     absl::StrCat(options.bytes),
                        "--threads",   absl::StrCat(options.threads),
                        "--block",     absl::StrCat(options.block)};
  spawning.stdin_fd = orders[0];
  spawning.stdout_fd = answers[1];
  spawning.parent_death_signal = 9;
  auto process = spawn(spawning);
  CHECK_OK(process.status());
  ::close(orders[0]);
  ::close(answers[1]);
  return {*std::move(process), Line(answers[0], orders[1])};
}

void drop_page_cache(const std::string& directory) {
  for (const std::string& name :
       real_files().list(directory).value_or(std::vector<std::string>())) {
    const int fd = ::open(join_path(directory, name).c_str(), O_RDONLY);
    if (fd < 0) continue;
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

double timed_load(std::vector<RankProcess>& ranks) {
  const absl::Duration start = real_clock().now();
  for (RankProcess& rank : ranks) rank.line.send("load");
  for (RankProcess& rank : ranks) rank.line.receive();
  return seconds_since(start);
}

void measure_round(const Options& options, std::vector<RankProcess>& ranks, int round) {
  const absl::Duration start = real_clock().now();
  for (RankProcess& rank : ranks) rank.line.send("save");
  double stall = 0;
  for (RankProcess& rank : ranks) stall = std::max(stall, std::stod(rank.line.receive()));
  for (RankProcess& rank : ranks) rank.line.receive();
  const double prepared = seconds_since(start);
  ranks[0].line.send("publish");
  ranks[0].line.receive();
  const double save = seconds_since(start);
  drop_page_cache(join_path(options.directory, "latest"));
  const double cold = timed_load(ranks);
  const double warm = timed_load(ranks);
  std::printf(
      "{\"round\": %d, \"ranks\": %d, \"bytes\": %lld, \"save_s\": %.4f, \"stall_s\": %.4f, "
      "\"prepared_s\": %.4f, \"load_cold_s\": %.4f, \"load_warm_s\": %.4f}\n",
      round, options.ranks, static_cast<long long>(options.bytes), save, stall, prepared, cold,
      warm);
  std::fflush(stdout);
}

int measure(const Options& options) {
  CHECK_OK(remove_tree(real_files(), options.directory));
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    ranks.push_back(start_rank(options, rank));
    ranks.back().line.receive();
  }
  for (int round = 0; round < options.rounds; ++round) {
    measure_round(options, ranks, round);
    const auto saved = list_checkpoints(real_files(), options.directory);
    CHECK_OK(saved.status());
    for (const std::string& path : *saved) CHECK_OK(remove_tree(real_files(), path));
  }
  ranks.clear();
  CHECK_OK(remove_tree(real_files(), options.directory));
  return 0;
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  CLI::App app("Durable checkpoints: save, stall and load");
  evermoe::Options options;
  app.add_option("--directory", options.directory)->required();
  app.add_option("--ranks", options.ranks)->check(CLI::Range(1, 64));
  app.add_option("--rank", options.rank)->group("");
  app.add_option("--bytes", options.bytes);
  app.add_option("--rounds", options.rounds);
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 16));
  app.add_option("--block", options.block);
  CLI11_PARSE(app, argc, argv);
  return options.rank < 0 ? evermoe::measure(options) : evermoe::serve(options);
}
