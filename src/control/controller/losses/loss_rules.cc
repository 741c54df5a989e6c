#include "control/controller/losses/loss_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

std::string given_up(int restarts, const std::string& of_whom, Commit furthest,
                     const std::string& how) {
  return absl::StrCat("given up after ", restarts, " restarts in a row ", of_whom,
                      "without progress beyond step ", step_of(std::max(furthest, Commit(0))).value,
                      " (run.restarts_max); the last failure: ", how);
}

}  // namespace

void LossRules::on_start(absl::Duration now, Rank rank, Node node, RoleState& role) {
  restarts_.on_start(now, rank, node);
  forgive(role);
}

void LossRules::forgive(RoleState& role) const {
  role.failures_seen = limits_.failures();
  role.losses_seen = limits_.counted();
}

void LossRules::on_progress() {
  limits_.on_progress();
  restarts_.on_progress();
}

LossDecision LossRules::on_loss(absl::Duration now, const Loss& loss, const RoleState& role,
                                Commit furthest) {
  LossDecision decision;
  const std::string name = topology_.name_of(loss.rank);
  restarts_.on_loss(now, loss.rank, loss.with_node);
  const int restarts = restarts_.losses(loss.rank) - 1;
  if (options_.strategy.keeps_copies() && restarts >= options_.restarts_max) {
    decision.end = {
        .reason = given_up(restarts, absl::StrCat("of worker ", name, " "), furthest, loss.how),
        .is_hopeless = !loss.with_node};
    return decision;
  }
  if (const std::string reason = restarts_.reason(now, loss.rank); !reason.empty())
    decision.news.push_back(absl::StrCat("worker ", name, " ", reason));
  // Machines that are lost together are often noticed one after the other: what was not started
  // again since the last loss was counted is part of that one.
  if (role.losses_seen == limits_.counted() && limits_.count_loss()) {
    decision.end = {.reason = absl::StrCat(limits_.losses(), " losses without any progress; the ",
                                           "last: ", name, ": ", loss.how)};
    return decision;
  }
  // Who was lost with others at once, or because of them, is not counted again.
  if (!options_.strategy.keeps_copies() && role.failures_seen == limits_.failures())
    count_failure(now, absl::StrCat("worker ", name, ": ", loss.how), furthest, decision);
  return decision;
}

LossDecision LossRules::on_restart_of_all(absl::Duration now, const std::string& reasons,
                                          Commit furthest) {
  LossDecision decision;
  if (!options_.strategy.keeps_copies() && limits_.is_unexplained())
    count_failure(now, reasons, furthest, decision);
  return decision;
}

absl::Duration LossRules::start_at(Rank rank) const {
  return std::max(limits_.start_at(), restarts_.start_at(rank));
}

// Of an unprotected job: all will start again.
void LossRules::count_failure(absl::Duration now, const std::string& how, Commit furthest,
                              LossDecision& decision) {
  const LossLimits::Restart restart = limits_.count_failure(now);
  if (!restart.is_allowed) {
    decision.end = {.reason = given_up(restart.number - 1, "", furthest, how), .is_hopeless = true};
    return;
  }
  decision.news.push_back(
      absl::StrCat("restart ", restart.number, " of at most ", options_.restarts_max,
                   " in a row without progress, from the newest durable checkpoint, in ",
                   absl::FormatDuration(restart.delay)));
}

}  // namespace evermoe
