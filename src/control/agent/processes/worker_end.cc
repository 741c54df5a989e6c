#include "control/agent/processes/worker_end.h"

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "control/launch/run_outcome.h"

namespace evermoe {
namespace {

std::string with_detail(const std::string& kind, const std::string& words) {
  return words.empty() ? kind : absl::StrCat(kind, ": ", words);
}

}  // namespace

WorkerEnded describe_end(const ExitStatus& exit, const std::optional<WorkerReport>& failed,
                         const std::string& last_words) {
  WorkerEnded ended;
  ended.is_clean = exit.ok();
  const std::string words = failed ? failed->text : last_words;
  if (exit.signal != 0) {
    // Who aborts itself has said why: a failed CHECK, an exception that nobody caught.
    ended.how = with_detail(to_string(exit), exit.signal == SIGABRT ? words : "");
    return ended;
  }
  ended.bad_input = failed ? failed->bad_input : exit.code == kExitBadInput;
  ended.is_hopeless = failed ? failed->is_hopeless : exit.code == kExitHopeless;
  ended.is_doubted = failed && failed->is_doubted;
  const std::string kind = exit.ok() ? "ended before its work was done" : to_string(exit);
  const bool is_for_user = failed && (ended.bad_input || ended.is_hopeless);
  ended.how = is_for_user ? words : with_detail(kind, words);
  return ended;
}

}  // namespace evermoe
