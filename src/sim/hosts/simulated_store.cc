#include "sim/hosts/simulated_store.h"

#include <algorithm>
#include <utility>

namespace evermoe {

bool SimulatedStore::is_lost() {
  return options_.one_question_lost_in > 0 &&
         time_.draw(static_cast<uint64_t>(options_.one_question_lost_in)) == 0;
}

absl::Duration SimulatedStore::on_the_way(absl::Duration blocked_until) {
  const auto max = static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.delay_max));
  return std::max(blocked_until - time_.now(), absl::ZeroDuration()) +
         absl::Nanoseconds(static_cast<int64_t>(time_.draw(max + 1)));
}

void SimulatedStore::ask(Machine from, const ElectionQuestion& question, const std::string& address,
                         std::function<void(const StoreAnswer&)> on_answer) {
  if (is_lost()) return;
  time_.after(on_the_way(lines_[from].questions_blocked_until),
              [this, from, question, address, on_answer = std::move(on_answer)] {
                arrive(from, question, address, on_answer);
              });
}

void SimulatedStore::arrive(Machine from, const ElectionQuestion& question,
                            const std::string& address,
                            const std::function<void(const StoreAnswer&)>& on_answer) {
  if (time_.now() < away_until_) return;
  const StoreAnswer answer = carry_out(question, address);
  if (is_lost()) return;
  time_.after(on_the_way(lines_[from].answers_blocked_until),
              [on_answer, answer] { on_answer(answer); });
}

StoreAnswer SimulatedStore::carry_out(const ElectionQuestion& question,
                                      const std::string& address) {
  expire();
  const bool has_lease = leases_.contains(question.lease);
  if (question.kind == Kind::kHolder) return {.holder = elected_};
  if (question.kind == Kind::kGrant) {
    leases_[++last_lease_] = time_.now() + options_.ttl;
    return {.lease = last_lease_};
  }
  if (!has_lease) return {.kind = StoreAnswer::Kind::kLeaseOver};
  if (question.kind == Kind::kKeepAlive) leases_[question.lease] = time_.now() + options_.ttl;
  if (question.kind == Kind::kRevoke) leases_.erase(question.lease);
  if (question.kind == Kind::kClaim && !elected_) elected_ = ElectedHost{address, question.lease};
  expire();
  return {.holder = elected_};
}

void SimulatedStore::expire() {
  std::erase_if(leases_, [&](const auto& lease) { return lease.second <= time_.now(); });
  if (elected_ && !leases_.contains(elected_->lease)) elected_.reset();
}

std::optional<ElectedHost> SimulatedStore::holder() {
  expire();
  return elected_;
}

void SimulatedStore::cut(Machine machine, absl::Duration time, bool only_answers) {
  Line& line = lines_[machine];
  line.answers_blocked_until = std::max(line.answers_blocked_until, time_.now() + time);
  if (only_answers) return;
  line.questions_blocked_until = std::max(line.questions_blocked_until, time_.now() + time);
}

void SimulatedStore::go_away(absl::Duration time) {
  away_until_ = std::max(away_until_, time_.now() + time);
}

void SimulatedStore::forget() {
  leases_.clear();
  expire();
}

}  // namespace evermoe
