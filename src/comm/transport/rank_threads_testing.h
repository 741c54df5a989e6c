// For tests: the same body in one thread per rank, over the transport of choice.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "comm/in_process/in_process_transport.h"
#include "comm/transport/secret_testing.h"
#include "comm/transport/transport.h"
#include "comm/ucx/ucx_transport.h"
#include "comm/unix/unix_transport.h"

namespace evermoe {

enum class TransportKind { kUnix, kUcx, kInProcess };

inline std::string kind_name(TransportKind kind) {
  return kind == TransportKind::kUnix ? "Unix" : kind == TransportKind::kUcx ? "Ucx" : "InProcess";
}

inline const std::vector<TransportKind> kRealTransports = {TransportKind::kUnix,
                                                           TransportKind::kUcx};
inline const std::vector<TransportKind> kAllTransports = {TransportKind::kUnix, TransportKind::kUcx,
                                                          TransportKind::kInProcess};

using RankBody = std::function<void(Transport&)>;

inline std::unique_ptr<TransportListener> listen(TransportKind kind) {
  auto listener =
      kind == TransportKind::kUcx ? listen_ucx({.secret = test_secret()}) : listen_unix({});
  CHECK_OK(listener.status());
  return *std::move(listener);
}

// Returns when every body has returned. Transports are closed at the end of each body.
inline void run_ranks(TransportKind kind, int size, const RankBody& body) {
  if (kind == TransportKind::kInProcess) {
    InProcessCluster cluster(size, {.seed = 42});
    cluster.run([&](Rank, Transport& transport) {
      body(transport);
      transport.close();
    });
    return;
  }
  std::vector<std::unique_ptr<TransportListener>> listeners;
  std::vector<std::string> addresses;
  for (int i = 0; i < size; ++i) {
    listeners.push_back(listen(kind));
    addresses.push_back(listeners.back()->address());
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      auto transport = listeners[static_cast<size_t>(i)]->connect(Rank(i), addresses);
      CHECK_OK(transport.status());
      body(**transport);
      (*transport)->close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace evermoe
