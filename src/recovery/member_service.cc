#include "recovery/member_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

// How long to sleep when nothing is due.
constexpr absl::Duration kIdle = absl::Seconds(10);
constexpr size_t kLettersOfNextViewMax = 1 << 16;

}  // namespace

absl::Status MemberService::run() {
  while (true) {
    nanoseconds_ = absl::ToInt64Nanoseconds(in_.clock.thread_time());
    in_.orders.follow();
    if (in_.gate.has_ended()) return absl::OkStatus();
    absl::StatusOr<Letter> letter = in_.transport.receive_letter(work());
    if (letter.ok()) {
      handle(*std::move(letter));
    } else if (!absl::IsDeadlineExceeded(letter.status())) {
      return letter.status();
    }
  }
}

absl::Duration MemberService::work() {
  const absl::Duration next = std::min(in_.copies.work(), kIdle);
  if (!in_.orders.is_opening()) return next;
  in_.orders.open_if_reachable();
  return in_.orders.is_opening() ? std::min(next, OrderFollower::kMeeting) : next;
}

void MemberService::on_opened() {
  std::deque<Letter> letters;
  letters.swap(of_next_view_);
  for (Letter& letter : letters) handle(std::move(letter));
}

void MemberService::handle(Letter letter) {
  if (static_cast<LetterKind>(letter.tag.purpose) == LetterKind::kWake) return;
  const PlanPointer plan = in_.gate.plan();
  const View newest = in_.gate.newest_view();
  const bool is_open = plan != nullptr && plan->view == newest;
  if (letter.tag.view < newest) return;
  if (letter.tag.view == newest && is_open) return answer(std::move(letter), newest);
  if (of_next_view_.size() < kLettersOfNextViewMax) of_next_view_.push_back(std::move(letter));
}

void MemberService::answer(Letter letter, View view) {
  const Rank from = letter.from;
  const absl::Status status = in_.answers.on_letter(std::move(letter), view);
  if (status.ok()) return;
  const absl::Status named = annotate(status, absl::StrCat("letter from rank ", from.value));
  log_error(std::string(named.message()));
  in_.gate.end(named);
}

}  // namespace evermoe
