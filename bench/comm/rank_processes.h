// For benchmarks: ranks that are processes of this machine, connected with each other.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/transport/job_transport.h"

namespace evermoe {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

inline void enter_rank(Rank rank, int ranks, const std::string& server,
                       const std::string& transport_name,
                       const std::function<void(Transport&)>& body) {
  const auto kind = parse_transport_kind(transport_name);
  CHECK_OK(kind.status());
  auto listener = listen_job({.kind = *kind, .unix_options = {}, .ucx_options = {}});
  CHECK_OK(listener.status());
  const auto addresses =
      join_rendezvous({server, rank, ranks, (*listener)->address(), ""}, absl::Seconds(30));
  CHECK_OK(addresses.status());
  auto transport = (*listener)->connect(rank, *addresses, absl::Seconds(30));
  CHECK_OK(transport.status());
  body(**transport);
  (*transport)->close();
}

// Runs `body` in a process per rank; 0 if all of them have succeeded.
//
// The server must start after the forks, because it has a thread; so its port comes through a page
// of shared memory, and the children wait for it in join_rendezvous().
inline int run_rank_processes(int ranks, const std::string& transport_name,
                              const std::function<void(Transport&)>& body) {
  auto* const port = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  CHECK(port != MAP_FAILED);
  std::vector<pid_t> children;
  for (int i = 0; i < ranks; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    while (port->load() == 0) ::usleep(1000);
    enter_rank(Rank(i), ranks, "127.0.0.1:" + std::to_string(port->load()), transport_name, body);
    std::fflush(stdout);
    ::_exit(0);
  }
  const auto server = RendezvousServer::start("127.0.0.1", 0, ranks);
  CHECK_OK(server.status());
  port->store((*server)->port());
  int failures = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failures += status != 0 ? 1 : 0;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace evermoe
