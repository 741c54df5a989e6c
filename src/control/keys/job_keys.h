// The keys of a job: by them its processes know each other over networks.
//
//   DIR/authority.pem    certificate of an authority made for this job alone, whose key nobody kept
//   DIR/certificate.pem  the one certificate that it signed, of the name kJobName
//   DIR/key.pem          its private key (ECDSA, P-256)
//   DIR/secret           JobSecret::kBytes random bytes, for the connections between workers
//
// DIR has mode 0700, the files 0600. Every process of the job presents the same certificate,
// whichever end of a connection it is: who has DIR belongs to the job. The certificate is valid
// from a day before it was made, so that clocks may differ, for twenty years; a job that must be
// locked anew gets new keys.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/transport/job_secret.h"
#include "env/clock.h"

namespace evermoe {

inline constexpr char kJobName[] = "evermoe-job";

struct JobKeys {
  std::string authority;  // PEM, as the next two
  std::string certificate;
  std::string private_key;
  JobSecret secret;
};

// New ones, in memory.
absl::StatusOr<JobKeys> make_keys();

// Makes `directory` with new keys; it is there as a whole or not at all. InvalidInput if something
// of that name exists.
absl::Status create_keys(const std::string& directory);

// InvalidInput, naming the file and what to do, if the folder or a file in it is missing, open to
// other users, of somebody else or damaged, if key and certificates do not belong together, or if
// this machine's clock is not within their time.
absl::StatusOr<JobKeys> load_keys(const std::string& directory);

// The path of the secret of the keys in `directory`, and its contents (checked as by load_keys).
std::string secret_path(const std::string& directory);
absl::StatusOr<JobSecret> load_secret(const std::string& path);

// Those of a node of a job. The first node makes missing ones if `may_make`; the others wait until
// they are there (Timeout after `patience`, and a line in the log that says what for).
struct NodeKeys {
  std::string directory;
  bool is_first = false;
  bool may_make = false;  // else the folder has to be there
  absl::Duration patience = absl::Minutes(10);
};
absl::StatusOr<JobKeys> keys_of_node(Clock& clock, const NodeKeys& node);

// Inside one machine there is nothing to prove by keys: addresses of AF_UNIX begin so.
bool is_local_address(const std::string& address);

// What a process needs at a control address: null for a local one. InvalidInput for one of a
// network without a folder.
absl::StatusOr<std::shared_ptr<const JobKeys>> keys_for(const std::string& address,
                                                        const std::string& directory);

}  // namespace evermoe
