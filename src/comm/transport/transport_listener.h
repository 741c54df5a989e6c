// The two phases in which a transport comes to life: first every process has an address, then,
// when everybody knows everybody's, they connect.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/transport/transport.h"

namespace evermoe {

// For open(): InvalidInput for more ranks than a job may have.
absl::Status check_ranks(int size);

class TransportListener {
 public:
  virtual ~TransportListener() = default;

  // Where the peers find this process: opaque, without white space.
  virtual const std::string& address() const = 0;

  // A transport that knows nobody yet; connections are made by Transport::meet(), and this process
  // goes on to accept younger ones. `since` is the view in which this process joins. To be called
  // once; the listener may be destroyed afterwards.
  // InvalidInput if `size` is more than kJobRanksMax (base/limits.h).
  virtual absl::StatusOr<std::unique_ptr<Transport>> open(Rank rank, int size, View since) = 0;

  // open() for a job whose membership never changes, and one meeting of all: addresses[i] is rank
  // i's, and addresses[rank] is this one's. To be called once, instead of open(). Errors as of
  // open() and meet(): Timeout names the missing ranks, PeerLost a rank that has died meanwhile,
  // InvalidInput addresses that this kind of transport cannot reach.
  virtual absl::StatusOr<std::unique_ptr<Transport>> connect(
      Rank rank, const std::vector<std::string>& addresses, absl::Duration timeout);
};

}  // namespace evermoe
