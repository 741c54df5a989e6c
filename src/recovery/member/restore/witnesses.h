// What is kept when something was computed twice with different bits: a fault of hardware or
// software that somebody has to look into.
//
//   OUT/contradiction/<role>-step-<n>/witness.json   what differed, both fingerprints of each
//                                     <n>.before, <n>.now   the bytes, where there are some
//
// The state before a rollback is known by its fingerprints only; what was recomputed is kept in
// full, and of messages both where both are here: docs/formats/contradiction.md. A job with such a
// folder has ended, and does not go on before somebody has taken the folder away.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "base/mutex.h"
#include "env/files.h"

namespace evermoe {

inline constexpr char kContradictionFolder[] = "contradiction";

// Threads: any.
class Witnesses {
 public:
  // Of bytes not more are kept; fingerprints always are.
  static constexpr int64_t kBytesMax = int64_t{64} << 20;

  bool has_room_for(int64_t bytes) const;
  // `before` and `now`: empty where the bytes are not known or there is no room for them.
  void add(std::string what, const Fingerprint& fingerprint_before,
           const Fingerprint& fingerprint_now, std::span<const std::byte> before,
           std::span<const std::byte> now);
  size_t size() const;
  // Into OUT/contradiction/`name`, whole or not at all. `error`: what the worker ends with. Keeps
  // what is there already.
  absl::Status write(Files& files, const std::string& out, const std::string& name,
                     const std::string& error) const;

 private:
  struct Witness {
    std::string what;
    Fingerprint before, now;
    std::vector<std::byte> bytes_before, bytes_now;
  };
  mutable Mutex mutex_;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Witness> witnesses_ ABSL_GUARDED_BY(mutex_);
};

// The error of the first witnesses in OUT, and where they are; nullopt if there are none. That they
// are there is enough: where witness.json cannot be read the error says less.
std::optional<std::string> find_contradiction(Files& files, const std::string& out);

}  // namespace evermoe
