// Measures how long messages from this rank to those take to whom it sends any.
//
// That somebody waits for a message does not say whether the link or its sender is late. So probes
// are timed, which the service thread of the other rank answers at once whatever its training
// thread does: an empty message, and after its answer a large one. Scheduling and other traffic
// only make them later: of several the shortest tells of the link (control/controller/stragglers/
// slow_link_watch.h).
//
// One measurement is under way at a time, of the rank whose last one is longest ago, and few are
// made: they cost less than a thousandth of a core, and a thousandth of a link with 1 Gb/s.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "comm/transport/sent_traffic.h"
#include "comm/transport/transport.h"
#include "env/clock.h"
#include "recovery/protocol/link_time.h"
#include "recovery/protocol/member_messages.h"

namespace evermoe {

// Pauses are so long on average, and uneven.
struct ProbeOptions {
  absl::Duration pause = absl::Seconds(1);  // between two measurements; infinite: there are none
  absl::Duration pair_pause = absl::Milliseconds(500);  // between two of one rank
  // And so many times as long as its large message took.
  double bulk_pauses = 25;
  size_t bulk_bytes = size_t{128} << 10;
  absl::Duration answer_max = absl::Seconds(5);    // what takes longer is given up
  absl::Duration silent_pause = absl::Minutes(1);  // then this rank is left alone for so long
};

class LinkProbes {
 public:
  using Send = std::function<void(Rank to, MessageKind kind, MessageBytes bytes)>;
  // The clock outlives it.
  LinkProbes(Clock& clock, std::shared_ptr<const SentTraffic> sent, Send send,
             ProbeOptions options = {})
      : clock_(clock), sent_(std::move(sent)), send_(std::move(send)), options_(options) {}

  // ---- service thread

  // Sends what is due; for how long nothing is then.
  absl::Duration work();
  static bool is_for_it(MessageKind kind) {
    return kind == MessageKind::kProbe || kind == MessageKind::kEcho;
  }
  // REQUIRES: is_for_it(). Corrupt for what no member sends.
  absl::Status on_message(const ServiceMessage& message);

  // ---- any thread

  // What was measured since the last call, oldest first.
  std::vector<LinkTime> take();

 private:
  struct Peer {
    absl::Duration measured;    // when, or when that was given up
    absl::Duration not_before;  // the next time
    SentTraffic::Sent sent;     // by then
  };
  struct UnderWay {
    Rank to;
    uint64_t number = 0;  // of the probe that was sent last
    absl::Duration sent;  // when
    SentTraffic::Sent traffic;
    std::optional<absl::Duration> round_trip;  // once it is known
  };

  absl::Duration uneven(absl::Duration pause) const;
  void begin(absl::Duration now);
  void probe(size_t bytes);
  void on_echo(Rank from, uint64_t number);
  void finish(absl::Duration now, absl::Duration round_trip, absl::Duration bulk);

  Clock& clock_;
  const std::shared_ptr<const SentTraffic> sent_;
  const Send send_;
  const ProbeOptions options_;
  std::map<Rank, Peer> peers_;
  std::optional<UnderWay> under_way_;
  absl::Duration next_;
  uint64_t number_ = 0;
  Mutex mutex_;
  std::vector<LinkTime> times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
