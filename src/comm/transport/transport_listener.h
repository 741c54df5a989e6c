// The two phases in which a transport comes to life: first every process has an address, then
// everybody is told everybody's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/transport/transport.h"

namespace evermoe {

// For open(): InvalidInput for more seats than a job may have.
absl::Status check_ranks(int size);

class TransportListener {
 public:
  virtual ~TransportListener() = default;

  // Where the peers find this process: opaque, without white space.
  virtual const std::string& address() const = 0;

  // A transport that knows nobody yet; Transport::set_peers() tells it. `since` is the view in
  // which this process joins. To be called once; the listener may be destroyed afterwards.
  // InvalidInput if `size` is more than kJobSeatsMax (base/limits.h).
  virtual absl::StatusOr<std::unique_ptr<Transport>> open(Rank rank, int size, View since) = 0;

  // open() and set_peers() for a job whose membership never changes: addresses[i] is rank i's, and
  // addresses[rank] is this one's. To be called once, instead of open(). Errors as of both.
  virtual absl::StatusOr<std::unique_ptr<Transport>> connect(
      Rank rank, const std::vector<std::string>& addresses);
};

}  // namespace evermoe
