#include "recovery/member/train/window_state.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {

WindowState::WindowState(StageTrainer& trainer, const OrderingOptions& ordering)
    : trainer_(trainer),
      ordering_(trainer.operators(), ordering),
      schedule_(WindowRule{}, std::vector<int>(trainer.operators().size(), 0)) {}

void WindowState::schedule_by(const WindowRule& rule) {
  schedule_ = CaptureSchedule(rule, ordering_.slots_of_operators(rule.slots));
}

void WindowState::begin_run(const WindowRule& rule) {
  ordering_.set_operators(trainer_.operators());
  ordering_.clear();
  schedule_by(rule);
}

void WindowState::on_moved() {
  ordering_.set_operators(trainer_.operators());
  schedule_by(schedule_.rule());
}

void WindowState::follow(const WindowRule& rule) {
  if (schedule_.rule() != rule) schedule_by(rule);
}

std::optional<std::string> WindowState::begin_window() {
  auto why = ordering_.begin_window();
  if (why) schedule_by(schedule_.rule());
  return why;
}

RecordBytes WindowState::position() const {
  RecordBytes position = ordering_.state();
  const RecordBytes of_trainer = trainer_.position();
  position.insert(position.end(), of_trainer.begin(), of_trainer.end());
  return position;
}

absl::Status WindowState::take_position(std::span<const std::byte> position) {
  const size_t order_size = ordering_.state().size();
  if (position.size() < order_size) return Corrupt("not a position of this stage");
  RETURN_IF_ERROR(ordering_.set_state(position.first(order_size)));
  const auto of_trainer = position.subspan(order_size);
  RETURN_IF_ERROR(trainer_.set_position({of_trainer.begin(), of_trainer.end()}));
  on_moved();
  return absl::OkStatus();
}

absl::Status WindowState::compare_position(std::span<const std::byte> position) const {
  const RecordBytes own = this->position();
  if (std::equal(own.begin(), own.end(), position.begin(), position.end())) return absl::OkStatus();
  return Contradiction(absl::StrCat("state ", trainer_.step().value,
                                    ": the records lead to another position than was captured"));
}

}  // namespace evermoe
