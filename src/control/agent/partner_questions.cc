#include "control/agent/partner_questions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evermoe {

// ---- asking

PartnerActions PartnerQuestions::ask(absl::Duration now, const AskPartners& order) {
  PartnerActions actions = forget();
  order_ = order;
  due_ = now + order.answer_max;
  for (const AskPartners::Partner& partner : order.partners) {
    if (open_.size() == kAskedMax) break;
    try_once(open_.emplace_back(Asked{partner}), actions);
  }
  return report_if_done(std::move(actions));
}

void PartnerQuestions::try_once(Asked& one, PartnerActions& actions) {
  ++one.tries;
  one.number = ++last_number_;
  one.again = absl::InfiniteDuration();
  actions.emplace_back(AskPartner{
      one.number, one.partner.lines, {one.partner.node, std::string(kFillingBytes, '.')}});
}

void PartnerQuestions::give_up(size_t index, std::string why, PartnerActions& actions) {
  if (open_[index].number != 0) actions.emplace_back(DropQuestion{open_[index].number});
  silent_.push_back({open_[index].partner.node, std::move(why)});
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
}

PartnerActions PartnerQuestions::report_if_done(PartnerActions actions) {
  if (order_ && open_.empty()) {
    actions.emplace_back(PartnersAsked{order_->round, std::exchange(silent_, {})});
    order_.reset();
  }
  return actions;
}

PartnerActions PartnerQuestions::on_answer(int64_t number, const PartnerAnswer& answer) {
  PartnerActions actions;
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i].number != number) continue;
    if (answer.node != open_[i].partner.node) {
      give_up(i, absl::StrCat("node ", answer.node.value, " answers in its place"), actions);
    } else {
      actions.emplace_back(DropQuestion{number});
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    break;
  }
  return report_if_done(std::move(actions));
}

PartnerActions PartnerQuestions::on_broken(absl::Duration now, int64_t number,
                                           const std::string& why) {
  PartnerActions actions;
  for (size_t i = 0; i < open_.size(); ++i) {
    Asked& one = open_[i];
    if (one.number != number) continue;
    one.number = 0;
    one.why = why;
    one.again = now + kPauseShare * order_->answer_max * (1 << (one.tries - 1));
    if (one.tries == kTriesMax) give_up(i, why, actions);
    break;
  }
  return report_if_done(std::move(actions));
}

PartnerActions PartnerQuestions::on_time(absl::Duration now) {
  PartnerActions actions;
  if (!order_) return actions;
  if (now >= due_) {
    const std::string late =
        absl::StrCat("no answer within ", absl::FormatDuration(order_->answer_max));
    while (!open_.empty()) give_up(0, open_[0].number != 0 ? late : open_[0].why, actions);
  }
  for (Asked& one : open_) {
    if (now >= one.again) try_once(one, actions);
  }
  return report_if_done(std::move(actions));
}

PartnerActions PartnerQuestions::forget() {
  PartnerActions actions;
  while (!open_.empty()) give_up(0, "", actions);
  silent_.clear();
  order_.reset();
  return actions;
}

absl::Duration PartnerQuestions::next_due() const {
  absl::Duration due = order_ ? due_ : absl::InfiniteDuration();
  for (const Asked& one : open_) due = std::min(due, one.again);
  return due;
}

// ---- answering

std::optional<PartnerAnswer> PartnerAnswers::on_question(absl::Duration now, StreamNumber asker,
                                                         Node own) {
  // Nobody asks twice on one line.
  if (until_.erase(asker) > 0 || until_.size() >= kAskersMax) return std::nullopt;
  until_[asker] = now + kAskerMax;
  return PartnerAnswer{own, std::string(PartnerQuestions::kFillingBytes, '.')};
}

std::vector<StreamNumber> PartnerAnswers::on_time(absl::Duration now) {
  std::vector<StreamNumber> late;
  for (const auto& [asker, until] : until_) {
    if (now >= until) late.push_back(asker);
  }
  for (const StreamNumber asker : late) until_.erase(asker);
  return late;
}

absl::Duration PartnerAnswers::next_due() const {
  absl::Duration due = absl::InfiniteDuration();
  for (const auto& [asker, until] : until_) due = std::min(due, until);
  return due;
}

}  // namespace evermoe
