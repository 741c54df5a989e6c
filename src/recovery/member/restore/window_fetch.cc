#include "recovery/member/restore/window_fetch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "recovery/protocol/repeats.h"

namespace evermoe {

void WindowFetch::Progress::take_from(Step window, const std::string& source) {
  std::string line = absl::StrCat("window ", window.value, " from ", source);
  if (sources.empty() || sources.back() != line) sources.push_back(std::move(line));
}

// Slots that are not what was captured.
void WindowFetch::drop_damaged(const std::vector<SlotTime>& times) {
  for (const SlotTime time : times) {
    for (const Chunk& chunk : in_.store.slot(in_.rank, time)) {
      if (chunk.verify().ok()) continue;
      in_.store.drop(in_.rank, time);
      break;
    }
  }
}

absl::StatusOr<WindowFetch::Fetched> WindowFetch::fetch(const std::vector<SlotTime>& times) {
  drop_damaged(times);
  Progress progress;
  for (const SlotTime time : times) {
    while (!in_.store.has_slot(in_.rank, time)) RETURN_IF_ERROR(fetch_slot(time, progress));
    const bool was_asked =
        progress.next_source < progress.asked.size() && progress.asked_for == time;
    progress.take_from(time.window, was_asked
                                        ? in_.topology.name_of(progress.asked[progress.next_source])
                                        : "its own memory");
  }
  Fetched fetched{std::move(progress.sources), std::nullopt};
  if (progress.view != View(0)) {
    // The first ones refused.
    progress.asked.erase(
        progress.asked.begin(),
        progress.asked.begin() + static_cast<std::ptrdiff_t>(progress.next_source));
    fetched.asked = std::move(progress.asked);
  }
  return fetched;
}

absl::Status WindowFetch::fetch_slot(SlotTime time, Progress& progress) {
  ASSIGN_OR_RETURN(const PlanPointer plan, in_.views.pass());
  if (plan->view != progress.view) {
    progress.view = plan->view;
    progress.next_source = 0;
    progress.asked = plan->sources.empty() ? std::vector<Rank>()
                                           : plan->sources[static_cast<size_t>(in_.rank.value)];
    std::erase(progress.asked, in_.rank);
  }
  if (progress.next_source >= progress.asked.size()) {
    in_.troubles.report_copies_unusable(
        progress.view, NotFound(absl::StrCat("no source has a usable copy of window ",
                                             time.window.value, ", slot ", time.slot)));
    return in_.views.pass(progress.view).status();
  }
  progress.asked_for = time;
  const Rank source = progress.asked[progress.next_source];
  ASSIGN_OR_RETURN(const bool refused, ask(source, progress.view, time));
  if (!refused) return absl::OkStatus();
  progress.sources.push_back(
      absl::StrCat("the copy of ", in_.topology.name_of(source), " was damaged or gone"));
  ++progress.next_source;
  return absl::OkStatus();
}

// Numbers of the chunks that are here.
std::vector<int32_t> WindowFetch::arrived(SlotTime time) const {
  std::vector<int32_t> numbers;
  for (const Chunk& chunk : in_.store.chunks(in_.rank, time))
    numbers.push_back(chunk.header().chunk);
  return numbers;
}

// Whoever asks again gets what is missing. While chunks come, however slowly, nothing stands still.
absl::StatusOr<bool> WindowFetch::ask(Rank source, View view, SlotTime time) {
  in_.refused.clear();
  Repeats repeats;
  std::vector<int32_t> have = arrived(time);
  for (bool asks = true; !in_.store.has_slot(in_.rank, time) && in_.views.newest_view() == view;) {
    if (asks)
      in_.sender.send(source, view, MessageKind::kWantSlot,
                      encode(WantedSlot{{in_.rank, time}, have}));
    ASSIGN_OR_RETURN(const bool signalled, in_.views.wait_signal());
    if (in_.refused.is(source, time)) {
      in_.counts.add_one(&MemberWork::copies_refused);
      return true;
    }
    if (std::vector<int32_t> now = arrived(time); now.size() > have.size()) {
      have = std::move(now);
      repeats.on_arrival();
      in_.control.send(Milestone{view, in_.rank, Milestone::Kind::kCopying, 0, {}});
    }
    asks = !signalled && repeats.is_due();
  }
  return false;
}

}  // namespace evermoe
