#include "recovery/member/serve/member_service.h"

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

}  // namespace

absl::Status MemberService::run() {
  while (true) {
    nanoseconds_ = absl::ToInt64Nanoseconds(in_.clock.thread_time());
    in_.orders.follow();
    if (in_.views.has_ended()) return absl::OkStatus();
    absl::StatusOr<ServiceMessage> message = in_.transport.receive_service_message(
        std::min({in_.copies.work(), in_.probes.work(), in_.orders.pause(), kIdle}));
    if (message.ok()) {
      handle(*std::move(message));
    } else if (!absl::IsDeadlineExceeded(message.status())) {
      end(message.status());
      return message.status();
    }
  }
}

void MemberService::on_opened() {
  for (ServiceMessage& message : of_next_view_.take()) handle(std::move(message));
}

void MemberService::handle(ServiceMessage message) {
  const auto kind = static_cast<MessageKind>(message.tag.purpose);
  if (kind == MessageKind::kWake) return;
  if (LinkProbes::is_for_it(kind)) return judge(in_.probes.on_message(message), message.from);
  const PlanPointer plan = in_.views.plan();
  const View newest = in_.views.newest_view();
  const bool is_open = plan != nullptr && plan->view == newest;
  if (message.tag.view < newest) return;
  if (message.tag.view == newest && is_open) return answer(std::move(message), newest);
  of_next_view_.add(std::move(message));  // or it is asked for again
}

void MemberService::answer(ServiceMessage message, View view) {
  const Rank from = message.from;
  if (message.tag.purpose == static_cast<uint32_t>(MessageKind::kComing))
    return judge(in_.orders.expect(from, message.span()), from);
  judge(in_.answers.on_message(std::move(message), view), from);
}

void MemberService::judge(const absl::Status& status, Rank from) {
  if (status.ok()) return;
  const absl::Status named = annotate(status, absl::StrCat("message from rank ", from.value));
  log_error(std::string(named.message()));
  end(named);
}

// Nobody else would end what the training thread waits for: there are no orders any more, and its
// peers are well. It then asks for the next view and learns why.
void MemberService::end(const absl::Status& error) {
  in_.views.end(error);
  const View newest = in_.views.newest_view();
  for (const GroupRange groups : {kWorldGroups, kStageGroups})
    in_.transport.revoke(groups, newest, Cancelled("this process has to end"));
}

}  // namespace evermoe
