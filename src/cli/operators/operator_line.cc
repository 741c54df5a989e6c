#include "cli/operators/operator_line.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "control/folder/job_folder.h"
#include "control/folder/workers_file.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(100);

absl::StatusOr<std::string> address_in(const std::string& folder) {
  auto address = read_controller_file(real_files(), controller_file(folder));
  if (address.ok()) return address;
  return InvalidInput(absl::StrCat("no job runs in ", folder, ": ", address.status().message()));
}

}  // namespace

absl::StatusOr<OperatorTarget> find_job(const std::string& where, const std::string& keys) {
  if (!real_files().is_directory(where)) {
    if (where.find(':') == std::string::npos) {
      return InvalidInput(
          absl::StrCat("found ", where, ", allowed: the output folder of a job, or HOST:PORT"));
    }
    ASSIGN_OR_RETURN(auto loaded, keys_for(where, keys));
    return OperatorTarget{where, std::move(loaded)};
  }
  ASSIGN_OR_RETURN(std::string address, address_in(where));
  const std::string own = join_path(where, "keys");
  const bool has_own = keys.empty() && real_files().is_directory(own);
  ASSIGN_OR_RETURN(auto loaded, keys_for(address, has_own ? own : keys));
  return OperatorTarget{std::move(address), std::move(loaded)};
}

void add_job_options(CLI::App& command, std::string& where, std::string& keys) {
  command.add_option("JOB", where, "the output folder of the job, or HOST:PORT of its controller")
      ->type_name("DIR|HOST:PORT")
      ->required();
  command.add_option("--keys", keys, "folder with the job's keys (default: DIR/keys)")
      ->type_name("DIR");
}

OperatorLine::OperatorLine(OperatorTarget target, Clock& clock)
    : target_(std::move(target)), clock_(clock), arrived_(kArrivedMax) {}

void OperatorLine::hello() {
  if (call_ == nullptr) {
    call_.reset(new ControlCall(target_.address, StreamNumber(++calls_), *this, target_.keys));
  }
  call_->send({0, OperatorHello{}});
}

absl::StatusOr<OperatorLine::Answer> OperatorLine::ask() {
  const absl::Duration deadline = clock_.now() + kAnswerMax;
  answer_.status.reset();
  hello();
  while (clock_.now() < deadline) {
    poll_for(kRetry);
    if (answer_.status || answer_.end) return std::exchange(answer_, {});
    if (call_ == nullptr) {
      ::poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kRetry)));
      hello();
    }
  }
  return Timeout(absl::StrCat("the controller at ", target_.address, " does not answer",
                              broken_.empty() ? "" : ": ", broken_));
}

absl::StatusOr<OperatorLine::Answer> OperatorLine::ask_for(const MoveWanted& wish) {
  const absl::Duration deadline = clock_.now() + kAnswerMax;
  answer_ = {};
  send(wish);
  while (call_ != nullptr && clock_.now() < deadline) {
    poll_for(kRetry);
    if (answer_.move || answer_.end) return std::exchange(answer_, {});
  }
  return Timeout(absl::StrCat("the controller at ", target_.address, " does not answer",
                              broken_.empty() ? "" : ": ", broken_,
                              "; evermoe status shows whether it does what was wanted"));
}

void OperatorLine::wait(absl::Duration time) {
  const absl::Duration deadline = clock_.now() + time;
  while (!answer_.end && clock_.now() < deadline) poll_for(deadline - clock_.now());
}

void OperatorLine::poll_for(absl::Duration time) {
  pollfd waiting{arrived_.fd(), POLLIN, 0};
  // Rounded up, so that the time has passed after the wait.
  ::poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(time + absl::Milliseconds(1))));
  take();
}

void OperatorLine::take() {
  bool is_broken = false;
  for (Arrived& one : arrived_.take()) {
    if (call_ == nullptr || one.stream != StreamNumber(calls_)) continue;
    if (!one.envelope) {
      is_broken = true;
      broken_ = one.why;
    } else if (auto* const status = std::get_if<JobStatus>(&one.envelope->message)) {
      answer_.status = std::move(*status);
    } else if (auto* const move = std::get_if<MoveAnswer>(&one.envelope->message)) {
      answer_.move = std::move(*move);
    } else if (auto* const end = std::get_if<EndJob>(&one.envelope->message)) {
      answer_.end = std::move(*end);
    }
  }
  if (is_broken) call_.reset();
}

}  // namespace evermoe
