#include "recovery/member/restore/window_fetch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "recovery/protocol/repeats.h"

namespace evermoe {

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

absl::StatusOr<WindowFetch::Fetched> WindowFetch::fetch(const std::vector<SlotTime>& times,
                                                        const OnSlot& on_slot) {
  drop_damaged(times);
  Progress progress{.missing = times};
  std::ranges::copy_if(times, std::back_inserter(progress.own),
                       [this](SlotTime time) { return in_.store.has_slot(in_.rank, time); });
  Repeats repeats;
  size_t chunks = count_chunks(times);
  RETURN_IF_ERROR(take_arrived(progress, on_slot));
  while (!progress.missing.empty()) {
    ASSIGN_OR_RETURN(const PlanPointer plan, in_.views.pass());
    bool asks = plan->view != progress.view;
    if (asks) follow(*plan, progress);
    if (take_refusals(progress)) asks = true;
    const auto lost = std::ranges::find_if(progress.missing, [&](SlotTime time) {
      return !in_.store.has_slot(in_.rank, time) && progress.shares.shares_of(time).empty();
    });
    if (lost != progress.missing.end()) {
      RETURN_IF_ERROR(report_missing(progress, *lost));
      continue;
    }
    if (asks) ask(progress);
    ASSIGN_OR_RETURN(const bool signalled, in_.views.wait_signal());
    RETURN_IF_ERROR(take_arrived(progress, on_slot));
    // While chunks come, however slowly, nothing stands still.
    if (const size_t now = count_chunks(times); now > chunks) {
      chunks = now;
      repeats.on_arrival();
      in_.control.send(Milestone{progress.view, in_.rank, Milestone::Kind::kCopying, 0, {}});
    }
    if (signalled || !repeats.is_due()) continue;
    progress.shares.rotate();
    ask(progress);
  }
  Fetched fetched{std::move(progress.sources), std::nullopt};
  if (progress.view != View(0)) fetched.asked = progress.shares.sound();
  return fetched;
}

void WindowFetch::follow(const Plan& plan, Progress& progress) {
  progress.view = plan.view;
  std::vector<Rank> sources = plan.sources.empty()
                                  ? std::vector<Rank>()
                                  : plan.sources[static_cast<size_t>(in_.rank.value)];
  std::erase(sources, in_.rank);
  progress.shares = SourceShares(std::move(sources));
  (void)in_.refused.take();  // of former plans
}

bool WindowFetch::take_refusals(Progress& progress) {
  bool is_new = false;
  for (const auto& [source, time] : in_.refused.take()) {
    if (std::ranges::find(progress.missing, time) == progress.missing.end() ||
        !progress.shares.refuse(source, time))
      continue;
    is_new = true;
    in_.counts.add_one(&MemberWork::copies_refused);
    progress.sources.push_back(
        absl::StrCat("the copy of ", in_.topology.name_of(source), " was damaged or gone"));
  }
  return is_new;
}

// What has come, in order, with who sent it.
absl::Status WindowFetch::take_arrived(Progress& progress, const OnSlot& on_slot) {
  std::vector<SlotTime>& missing = progress.missing;
  while (!missing.empty() && in_.store.has_slot(in_.rank, missing.front())) {
    const SlotTime time = missing.front();
    const auto shares = progress.shares.shares_of(time);
    const std::string from =
        std::ranges::find(progress.own, time) != progress.own.end()
            ? "its own memory"
            : absl::StrJoin(shares, " and ", [&](std::string* out, const SourceShares::Share& one) {
                *out += in_.topology.name_of(one.source);
              });
    std::string line = absl::StrCat("window ", time.window.value, " from ", from);
    if (progress.sources.empty() || progress.sources.back() != line)
      progress.sources.push_back(std::move(line));
    RETURN_IF_ERROR(on_slot(time));
    missing.erase(missing.begin());
  }
  return absl::OkStatus();
}

absl::Status WindowFetch::report_missing(const Progress& progress, SlotTime time) {
  in_.troubles.report_copies_unusable(
      progress.view, NotFound(absl::StrCat("no source has a usable copy of window ",
                                           time.window.value, ", slot ", time.slot)));
  return in_.views.pass(progress.view).status();
}

// Numbers of the chunks that are here.
std::vector<int32_t> WindowFetch::arrived(SlotTime time) const {
  std::vector<int32_t> numbers;
  for (const Chunk& chunk : in_.store.chunks(in_.rank, time))
    numbers.push_back(chunk.header().chunk);
  return numbers;
}

size_t WindowFetch::count_chunks(const std::vector<SlotTime>& times) const {
  size_t count = 0;
  for (const SlotTime time : times) count += arrived(time).size();
  return count;
}

// Whoever asks again gets what is missing.
void WindowFetch::ask(const Progress& progress) {
  for (const SlotTime time : progress.missing) {
    if (in_.store.has_slot(in_.rank, time)) continue;
    const WantedSlot wanted{{in_.rank, time}, arrived(time), {}};
    for (const SourceShares::Share& share : progress.shares.shares_of(time)) {
      WantedSlot of_source = wanted;
      of_source.share = share.chunks;
      in_.sender.send(share.source, progress.view, MessageKind::kWantSlot, encode(of_source));
    }
  }
}

}  // namespace evermoe
