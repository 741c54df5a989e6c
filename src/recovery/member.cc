#include "recovery/member.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

enum : uint32_t { kTrainingSignal = 1 };

std::vector<Rank> all_ranks(int size) {
  std::vector<Rank> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(Rank(r));
  return ranks;
}

// Until the first plan says from where.
CaptureSchedule no_schedule(size_t operators) { return {WindowRule{}, std::vector<int>(operators, 0)}; }

}  // namespace

Member::Member(const Topology& topology, Transport& transport, StageTrainer& trainer, ControlLink& control,
               Clock& clock, MemberOptions options, MemberObserver observer)
    : topology_(topology), transport_(transport), trainer_(trainer), control_(control), clock_(clock),
      options_(std::move(options)), observer_(std::move(observer)), rank_(transport.rank()),
      stage_(topology.role_of(transport.rank()).stage), wake_training_(transport, kTrainingSignal), post_(transport, [this](View view, const absl::Status& s) { report_trouble(view, s, false); }),
      gate_(wake_training_, options_.patience, options_.ask_again), log_(options_.log_bytes_max), store_(options_.snapshot_bytes_max),
      ordering_(trainer.operators(), options_.ordering), schedule_(no_schedule(trainer.operators().size())),
      exchange_({.transport = &transport_, .post = &post_, .gate = &gate_, .log = &log_, .received = &received_,
                 .report_trouble = [this](View view, const absl::Status& s) { report_trouble(view, s, false); },
                 .meanwhile = [this] { return trainer_.work_meanwhile(); }, .keeps_log = options_.is_protected, .deadline = options_.deadline}),
      copies_({.rank = rank_, .trainer = &trainer_, .schedule = &schedule_, .store = &store_, .post = &post_,
               .gate = &gate_, .wake_training = &wake_training_, .clock = &clock_},
              options_.copies),
      world_(transport_, all_ranks(transport.size()), {View(0), kVerdictGroup, options_.deadline}),
      active_(trainer.operators().size(), true) {}

Member::~Member() = default;

MemberWork Member::work() const {
  const std::lock_guard lock(mutex_);
  return work_;
}

ProtectionState Member::protection_state(const Record& record) const {
  ProtectionState state;
  state.window_steps = static_cast<int>(schedule_.rule().period);
  state.complete_window = record.complete_window;
  state.log_bytes = log_.bytes();
  state.snapshot_bytes = store_.bytes();
  state.captured_bytes = copies_.captured_bytes();
  state.read_wait_seconds = seconds_waited_for_reads();
  state.copy_wait_seconds = seconds_waited_for_copies();
  state.copying_seconds = absl::ToDoubleSeconds(service_time());
  return state;
}

void Member::receive(ControllerMessage message) {
  enqueue(std::move(message));
  post_.wake_service();
}

void Member::enqueue(ControllerMessage message) {
  const std::lock_guard lock(mutex_);
  orders_.push_back(std::move(message));
}

void Member::report_trouble(View view, const absl::Status& status, bool inside_stage, bool copies_unusable) {
  // A view that is over takes its calls with it: that is how this member learns of it.
  if (gate_.newest_view() != view) return;
  Trouble trouble;
  trouble.view = view;
  trouble.stage_epoch = gate_.standing().stage_epoch;
  trouble.rank = rank_;
  trouble.inside_stage = inside_stage;
  trouble.accused = accused_rank(status);
  trouble.copies_unusable = copies_unusable;
  trouble.what = std::string(status.message());
  {
    // Attempts are repeated; the news is told once. Before the view is open the controller does not listen.
    const std::lock_guard lock(mutex_);
    const PlanPointer plan = gate_.plan();
    const bool is_open = opening_view_ == view || (plan != nullptr && plan->view == view);
    if (trouble_ && *trouble_ == trouble) return;
    if (is_open) trouble_ = trouble;
  }
  log_warning(absl::StrCat("view ", view.value, ": ", trouble.what));
  control_.send(std::move(trouble));
}

void Member::spoil_copies() {
  const PlanPointer plan = gate_.plan();
  if (plan == nullptr || plan->holders.empty()) return;
  for (const Rank holder : plan->holders[static_cast<size_t>(rank_.value)]) {
    post_.send(holder, plan->view, LetterKind::kSpoil, {});
  }
}

void Member::repeat_trouble() {
  std::optional<Trouble> trouble;
  {
    const std::lock_guard lock(mutex_);
    trouble = trouble_;
  }
  if (trouble && trouble->view == gate_.newest_view()) control_.send(*std::move(trouble));
}

}  // namespace evermoe
