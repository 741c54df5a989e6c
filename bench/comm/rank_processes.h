// For benchmarks: ranks that are processes of this machine, connected with each other.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "comm/transport/deadline.h"
#include "comm/transport/job_transport.h"

namespace evermoe {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The program begins again with the variables that UCX reads when it is loaded, as workers have
// them. What people have set stays.
inline void enter_ucx_environment(char** argv) {
  bool is_complete = true;
  for (const auto& [name, value] : ucx_environment()) {
    is_complete = is_complete && ::getenv(name.c_str()) != nullptr;
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
  if (!is_complete) ::execv("/proc/self/exe", argv);
}

// A rank's place in the memory that all of them share: where its process is.
struct RankPlace {
  std::atomic<bool> is_filled{false};
  char address[4095];
};

inline constexpr absl::Duration kRanksStartMax = absl::Seconds(30);

// Leaves the own address in the rank's place and waits for everybody's.
inline std::vector<std::string> exchange_addresses(RankPlace* places, int rank, int ranks,
                                                   const std::string& own) {
  CHECK(own.size() < sizeof(RankPlace::address)) << own;
  own.copy(places[rank].address, own.size());  // the rest is zero
  places[rank].is_filled = true;
  const Deadline deadline(kRanksStartMax);
  std::vector<std::string> addresses;
  for (int i = 0; i < ranks; ++i) {
    for (; !places[i].is_filled; ::usleep(1000))
      CHECK(!deadline.passed()) << "rank " << i << " has not started";
    addresses.emplace_back(places[i].address);
  }
  return addresses;
}

inline std::unique_ptr<TransportListener> listen_for(const std::string& transport_name) {
  const auto kind = parse_transport_kind(transport_name);
  CHECK_OK(kind.status());
  const JobSecret secret(std::string(JobSecret::kBytes, 'b'));  // the same in all processes
  auto listener =
      listen_job({.kind = *kind, .unix_options = {}, .ucx_options = {.secret = secret}});
  CHECK_OK(listener.status());
  return *std::move(listener);
}

inline void enter_rank(int rank, int ranks, RankPlace* places, const std::string& transport_name,
                       const std::function<void(Transport&)>& body) {
  const auto listener = listen_for(transport_name);
  const std::vector<std::string> addresses =
      exchange_addresses(places, rank, ranks, listener->address());
  auto transport = listener->connect(Rank(rank), addresses);
  CHECK_OK(transport.status());
  body(**transport);
  (*transport)->close();
}

// Zeroed, and the same for all processes that are forked afterwards.
template <typename T>
T* share_memory(int count) {
  void* const memory = ::mmap(nullptr, sizeof(T) * static_cast<size_t>(count),
                              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return static_cast<T*>(memory);
}

// Runs `body` in so many processes, with the number of each; 0 if all of them have succeeded.
inline int run_processes(int count, const std::function<void(int)>& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    body(i);
    std::fflush(stdout);
    ::_exit(0);
  }
  int failures = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failures += status != 0 ? 1 : 0;
  }
  return failures == 0 ? 0 : 1;
}

// Runs `body` in a process per rank; 0 if all of them have succeeded.
inline int run_rank_processes(int ranks, const std::string& transport_name,
                              const std::function<void(Transport&)>& body) {
  auto* const places = share_memory<RankPlace>(ranks);
  return run_processes(ranks,
                       [&](int rank) { enter_rank(rank, ranks, places, transport_name, body); });
}

}  // namespace evermoe
