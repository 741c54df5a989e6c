// The store that decides who hosts a simulated job (control/store/host_store.h), with the network
// to it: one elected host, by a lease that is over `ttl` after the store has heard of it last.
//
// What a question meets: it takes a drawn time to the store and the answer one back; either may be
// lost. Where the line is cut, it arrives after that, like a segment that is sent again: carried
// out when nobody waits for the answer any more. A store that is away carries nothing out and
// answers nothing, while leases go on ending.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "comm/simulated/simulated_network.h"
#include "control/store/election_core.h"
#include "sim/control_network.h"

namespace evermoe {

struct SimulatedStoreOptions {
  absl::Duration ttl;
  absl::Duration delay_max = absl::Milliseconds(4);  // each way
  int one_question_lost_in = 24;                     // likewise; 0: none
};

struct StoreAnswer {
  enum class Kind { kDone, kLeaseOver };
  Kind kind = Kind::kDone;
  LeaseNumber lease = 0;              // granted
  std::optional<ElectedHost> holder;  // after kHolder and kClaim
};

class SimulatedStore {
 public:
  // `time` outlives it.
  SimulatedStore(SimulatedNetwork& time, SimulatedStoreOptions options)
      : time_(time), options_(options) {}

  // `on_answer` runs as an event, if at all.
  void ask(Machine from, const ElectionQuestion& question, const std::string& address,
           std::function<void(const StoreAnswer&)> on_answer);
  // Who is elected at this instant.
  std::optional<ElectedHost> holder();

  // ---- faults
  // Neither questions nor answers of that machine arrive; or only no answers.
  void cut(Machine machine, absl::Duration time, bool only_answers);
  void go_away(absl::Duration time);
  // All leases are over, as when the store is restored from a backup.
  void forget();

 private:
  using Kind = ElectionQuestion::Kind;
  struct Line {
    absl::Duration questions_blocked_until, answers_blocked_until;
  };
  void arrive(Machine from, const ElectionQuestion& question, const std::string& address,
              const std::function<void(const StoreAnswer&)>& on_answer);
  StoreAnswer carry_out(const ElectionQuestion& question, const std::string& address);
  void expire();
  bool is_lost();
  absl::Duration on_the_way(absl::Duration blocked_until);

  SimulatedNetwork& time_;
  const SimulatedStoreOptions options_;
  std::map<LeaseNumber, absl::Duration> leases_;  // when they are over
  LeaseNumber last_lease_ = 0;
  std::optional<ElectedHost> elected_;
  std::map<Machine, Line> lines_;
  absl::Duration away_until_;
};

}  // namespace evermoe
