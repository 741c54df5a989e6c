// Who hosts a job, kept outside of the job's folder by a store with leases, in which one candidate
// at a time is elected.
//
// To be elected is not the right to write: that is the folder's term
// (checkpoint/write/folder_term.h), which whoever is elected takes next. The store only sees to it
// that somebody hosts, and says where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace evermoe {

// What a lease is, to the store.
using LeaseNumber = int64_t;

struct ElectedHost {
  std::string address;  // HOST:PORT of its controller
  LeaseNumber lease = 0;
};

// Every call is one attempt that ends within `timeout`; one that fails may have been carried out
// all the same. Errors: NotFound where a lease is over; else it cannot be known now. One thread.
class HostStore {
 public:
  virtual ~HostStore() = default;
  // A lease that is over `ttl` after the store has heard of it last.
  virtual absl::StatusOr<LeaseNumber> grant(absl::Duration ttl, absl::Duration timeout) = 0;
  virtual absl::Status keep_alive(LeaseNumber lease, absl::Duration timeout) = 0;
  // The lease is over at once, and with it what is held by it.
  virtual absl::Status revoke(LeaseNumber lease, absl::Duration timeout) = 0;
  // Is elected by that lease if nobody is. Who is now.
  virtual absl::StatusOr<ElectedHost> claim(LeaseNumber lease, const std::string& address,
                                            absl::Duration timeout) = 0;
  // nullopt: nobody.
  virtual absl::StatusOr<std::optional<ElectedHost>> holder(absl::Duration timeout) = 0;
};

}  // namespace evermoe
