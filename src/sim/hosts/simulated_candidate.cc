#include "sim/hosts/simulated_candidate.h"

#include <algorithm>
#include <utility>

namespace evermoe {

SimulatedCandidate::SimulatedCandidate(SimulatedNetwork& time, ControlNetwork& network,
                                       Machine machine, SimulatedStore& store,
                                       const Options& options, Events events)
    : ControlShell(time, network, machine, options.election.ttl),
      store_(store),
      options_(options),
      events_(std::move(events)),
      machine_(machine),
      core_(options.election, now()) {
  wake();
}

void SimulatedCandidate::stand(bool wants_to_host) {
  if (wants_to_host)
    core_.stand();
  else
    core_.resign();
  wake();
}

// As HostCampaign::work() does: while a question waits for its answer, nothing else happens.
void SimulatedCandidate::on_time() {
  if (question_.kind != Kind::kNone) {
    if (now() < gives_up_) return;
    question_.kind = Kind::kNone;
    core_.on_failed(now());
  }
  const ElectionQuestion next = core_.next(now());
  tell();
  rests_until_ = next.at;
  if (next.kind != Kind::kNone) ask(next);
}

absl::Duration SimulatedCandidate::next_deadline() const {
  return question_.kind == Kind::kNone ? rests_until_ : gives_up_;
}

void SimulatedCandidate::tell() {
  const bool was_host = std::exchange(is_host_, core_.holds(now()));
  if (was_host && !is_host_) events_.on_lost("it is no longer elected");
  if (core_.host() != host_) events_.on_host(host_ = core_.host());
  if (!was_host && is_host_) events_.on_won();
}

void SimulatedCandidate::ask(const ElectionQuestion& question) {
  question_ = question;
  asked_ = now();
  absl::Duration patience = options_.answer_max;
  if (question.kind == Kind::kKeepAlive)
    patience = std::clamp(core_.valid_until() - asked_, options_.answer_min, options_.answer_max);
  gives_up_ = asked_ + patience;
  store_.ask(machine_, question, core_.address(),
             [this, number = ++number_, process = process(),
              &network = network_](const StoreAnswer& answer) {
               if (!network.lives(process)) return;
               network.after(process, absl::ZeroDuration(), [this, number, answer] {
                 if (number == number_ && question_.kind != Kind::kNone) hear(answer);
               });
             });
}

void SimulatedCandidate::hear(const StoreAnswer& answer) {
  const Kind kind = std::exchange(question_.kind, Kind::kNone);
  if (answer.kind == StoreAnswer::Kind::kLeaseOver || kind == Kind::kRevoke)
    core_.on_lease_over(now());
  else if (kind == Kind::kHolder)
    core_.on_holder(now(), answer.holder);
  else if (kind == Kind::kGrant)
    core_.on_granted(asked_, answer.lease);
  else if (kind == Kind::kClaim)
    core_.on_claimed(now(), *answer.holder);
  else
    core_.on_kept(asked_);
  wake();
}

}  // namespace evermoe
