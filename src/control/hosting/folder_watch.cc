#include "control/hosting/folder_watch.h"

#include <poll.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "control/folder/job_end.h"
#include "control/folder/job_folder.h"
#include "control/folder/workers_file.h"

namespace evermoe {
namespace {

constexpr absl::Duration kLookAtFolderEvery = absl::Seconds(2);

std::optional<NewestTerm> newest_term_of(const NodeOptions& options) {
  absl::StatusOr<NewestTerm> newest = newest_term(real_files(), options.out);
  return newest.ok() ? std::optional(*std::move(newest)) : std::nullopt;
}

// A file that a job of one machine has left names a socket of that machine.
std::string controller_named_in(const std::string& out) {
  const auto named = read_controller_file(real_files(), controller_file(out));
  return named.ok() && !absl::StartsWith(*named, "unix:") ? *named : "";
}

}  // namespace

const std::string& ControllerPlace::next(absl::Duration now, const std::string& named) {
  if (named.empty() || named == told_) {
    on_answer();
    return current_ = told_;
  }
  if (now < turn_ends_) return current_;
  turn_ends_ = now + kTurn;
  return current_ = current_ == told_ ? named : told_;
}

FolderWatch::FolderWatch(const NodeOptions& options, Agent& agent)
    : options_(options),
      agent_(agent),
      met_(newest_term_of(options)),
      place_(options.controller),
      stopped_(1),
      thread_([this] { watch(); }) {}

FolderWatch::~FolderWatch() { CHECK(!thread_.joinable()) << "end() was not called"; }

std::optional<EndJob> FolderWatch::end() {
  stopped_.put(true);
  thread_.join();
  return std::move(ended_);
}

// In the beginning, too: the node's place of the controller may be from before it moved.
void FolderWatch::watch() {
  const int wait = static_cast<int>(absl::ToInt64Milliseconds(kLookAtFolderEvery));
  for (pollfd waiting{stopped_.fd(), POLLIN, 0}; ::poll(&waiting, 1, wait) <= 0;) {
    if (agent_.has_controller()) {
      place_.on_answer();
      continue;
    }
    if (look_at_end()) return;
    agent_.look_for_controller_at(
        place_.next(real_clock().now(), controller_named_in(options_.out)));
  }
}

bool FolderWatch::look_at_end() {
  const auto newest = newest_term_of(options_);
  const auto how = newest ? end_since(met_, *newest) : std::nullopt;
  if (!how) return false;
  ended_ = end_that(*how);
  ended_->reason = absl::StrCat("the job has ended without this node: ", *how);
  log_info(ended_->reason);
  agent_.quit(ended_->reason);
  return true;
}

}  // namespace evermoe
