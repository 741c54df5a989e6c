#include "cluster/blame.h"

#include <signal.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evermoe {
namespace {

// Exit code of a program that found the user's input wrong (base/error.h).
constexpr int kExitBadInput = 2;

using Workers = std::vector<WorkerState>;

bool has_failed(const WorkerState& worker) {
  if (worker.failed) return true;
  return worker.exit && !worker.finished;
}

bool says_bad_input(const WorkerState& worker) {
  if (worker.failed) return worker.failed->bad_input;
  return worker.exit && !worker.finished && worker.exit->signal == 0 && worker.exit->code == kExitBadInput;
}

bool killed_by_signal(const WorkerState& worker) {
  return worker.exit && !worker.finished && worker.exit->signal != 0;
}

absl::Duration silent_at(const WorkerState& worker, const BlameOptions& options) {
  if (!worker.running() || worker.finished) return absl::InfiniteDuration();
  return worker.heard + (worker.has_spoken ? options.alive_timeout : options.start_timeout);
}

std::optional<Rank> accused_by(const WorkerState& worker) {
  return worker.failed ? worker.failed->accused : std::nullopt;
}

std::string with_words(const std::string& kind, const std::string& words) {
  return words.empty() ? kind : absl::StrCat(kind, ": ", words);
}

// "exit code 1: out of memory"; before the exit is known, "failed: out of memory".
std::string own_words(const WorkerState& worker) {
  const std::string words = worker.failed ? worker.failed->text : worker.last_words;
  if (!worker.exit) return with_words("failed", words);
  if (worker.exit->ok()) return with_words("ended before its work was done", words);
  return with_words(to_string(*worker.exit), words);
}

std::vector<Rank> ranks_where(const Workers& workers, const std::function<bool(const WorkerState&)>& holds) {
  std::vector<Rank> ranks;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (holds(workers[i])) ranks.push_back(Rank(static_cast<int32_t>(i)));
  }
  return ranks;
}

const WorkerState& at(const Workers& workers, Rank rank) {
  return workers[static_cast<size_t>(rank.value)];
}

bool exists(const Workers& workers, Rank rank) {
  return rank.value >= 0 && rank.value < std::ssize(workers);
}

// The end of the chain of accusations that begins at `rank`. Where they go in a circle, where one
// accuses nobody that exists, or somebody who finished: the last accuser itself.
Rank end_of_accusations(const Workers& workers, Rank rank) {
  for (size_t hops = 0; hops < workers.size(); ++hops) {
    const auto accused = accused_by(at(workers, rank));
    if (!accused || !exists(workers, *accused) || at(workers, *accused).finished) return rank;
    rank = *accused;
  }
  return rank;
}

Cause certainly(std::vector<Rank> ranks, std::string kind) {
  Cause result;
  result.ranks = std::move(ranks);
  result.kind = std::move(kind);
  result.certain = true;
  return result;
}

Cause bad_input_of(const Workers& workers, const std::vector<Rank>& ranks) {
  const WorkerState& first = at(workers, ranks[0]);
  Cause result = certainly(ranks, first.failed ? first.failed->text : own_words(first));
  result.bad_input = true;
  return result;
}

std::string death_of(const WorkerState& worker) {
  // Who aborts itself has said why: a failed CHECK, an exception that nobody caught.
  const bool aborted = worker.exit->signal == SIGABRT;
  return with_words(to_string(*worker.exit), aborted ? worker.last_words : "");
}

std::optional<Cause> certain_cause(absl::Duration now, const Workers& workers, const BlameOptions& options) {
  if (const auto ranks = ranks_where(workers, says_bad_input); !ranks.empty()) return bad_input_of(workers, ranks);
  const auto not_started = [](const WorkerState& worker) { return !worker.not_started.empty(); };
  if (const auto ranks = ranks_where(workers, not_started); !ranks.empty()) {
    return certainly(ranks, absl::StrCat("cannot be started: ", at(workers, ranks[0]).not_started));
  }
  if (const auto ranks = ranks_where(workers, killed_by_signal); !ranks.empty()) {
    return certainly(ranks, death_of(at(workers, ranks[0])));
  }
  const auto unreadable = [](const WorkerState& worker) { return !worker.unreadable.empty(); };
  if (const auto ranks = ranks_where(workers, unreadable); !ranks.empty()) {
    return certainly(ranks, absl::StrCat("unreadable report: ", at(workers, ranks[0]).unreadable));
  }
  const auto silent = [&](const WorkerState& worker) { return now >= silent_at(worker, options); };
  if (const auto ranks = ranks_where(workers, silent); !ranks.empty()) {
    const double since = absl::ToDoubleSeconds(now - at(workers, ranks[0]).heard);
    return certainly(ranks, absl::StrFormat("hung: no sign of life for %.1f s", since));
  }
  return std::nullopt;
}

// What a worker did that others accuse and that has not failed by itself.
std::string accused_kind(absl::Duration now, const WorkerState& accused, const std::string& accuser,
                         const std::string& words, const BlameOptions& options) {
  const bool silent = now - accused.heard >= options.suspicious_silence;
  return absl::StrCat("hung: ", silent ? "no sign of life, and " : "", "accused by worker ", accuser, ": ", words);
}

std::optional<Cause> probable_cause(absl::Duration now, const Workers& workers, const BlameOptions& options) {
  const std::vector<Rank> failed = ranks_where(workers, has_failed);
  if (failed.empty()) return std::nullopt;
  Cause result;
  const auto by_itself = [](const WorkerState& w) { return has_failed(w) && !accused_by(w); };
  result.ranks = ranks_where(workers, by_itself);
  if (!result.ranks.empty()) {
    result.kind = own_words(at(workers, result.ranks[0]));
    return result;
  }
  const Rank accuser = failed[0];
  const Rank end = end_of_accusations(workers, accuser);
  result.ranks = {end};
  result.kind = has_failed(at(workers, end))
                    ? own_words(at(workers, end))
                    : accused_kind(now, at(workers, end), options.role_names[static_cast<size_t>(accuser.value)],
                                   at(workers, accuser).failed->text, options);
  return result;
}

}  // namespace

std::optional<Cause> find_cause(absl::Duration now, const Workers& workers, const BlameOptions& options) {
  std::optional<Cause> cause = certain_cause(now, workers, options);
  if (!cause) cause = probable_cause(now, workers, options);
  if (!cause) return std::nullopt;
  for (const WorkerState& worker : workers) {
    const auto accused = accused_by(worker);
    if (accused && exists(workers, *accused) && !cause->accused) cause->accused = accused;
  }
  return cause;
}

absl::Duration next_silence(const Workers& workers, const BlameOptions& options) {
  absl::Duration next = absl::InfiniteDuration();
  for (const WorkerState& worker : workers) next = std::min(next, silent_at(worker, options));
  return next;
}

}  // namespace evermoe
