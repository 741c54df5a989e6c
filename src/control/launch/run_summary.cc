#include "control/launch/run_summary.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "checkpoint/format/json_null.h"
#include "control/hosting/event_json.h"
#include "control/hosting/failure_json.h"
#include "control/launch/move_summary.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

void add_line(std::string& text, const std::string& name, const std::string& value) {
  absl::StrAppendFormat(&text, "  %-12s%s\n", name, value);
}

}  // namespace

const char* to_string(RunStatus status) {
  constexpr const char* kNames[] = {"finished", "drained", "failed", "nothing to do", "taken over"};
  return kNames[static_cast<int>(status)];
}

std::string to_json(const RunSummary& summary) {
  Json json;
  json["status"] = to_string(summary.status);
  json["steps"] = summary.steps.value;
  json["digest"] = or_null(summary.digest);
  json["restarts"] = summary.restarts;
  json["final_loss"] = or_null(summary.final_loss);
  json["validation_loss"] = or_null(summary.validation_loss);
  json["validation_accuracy"] = or_null(summary.validation_accuracy);
  json["tokens_per_s"] = or_null(summary.tokens_per_second);
  json["failures"] = json_list(summary.failures, failure_json);
  json["membership_history"] = json_list(summary.membership, change_json);
  json["rebalances"] = json_list(summary.moves, rebalance_json);
  json["moves"] = json_list(summary.role_moves, move_json);
  json["stragglers"] = json_list(summary.stragglers, straggler_json);
  json["slow_links"] = json_list(summary.slow_links, slow_link_json);
  json["samples_trained"] = or_null(summary.samples_trained);
  json["samples_doubled"] = or_null(summary.samples_doubled);
  json["strategy"] = summary.strategy;
  json["is_exact"] = summary.is_exact;
  json["lost_token_share"] = summary.lost_token_share;
  json["reason"] = summary.reason;
  json["seconds"] = summary.seconds;
  json["out"] = summary.out;
  json["checkpoint"] = or_null(summary.checkpoint);
  json["metrics"] = summary.metrics;
  json["curve"] = summary.curve;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_text(const RunSummary& summary) {
  std::string text = absl::StrFormat("%s: step %d after %.1f s", to_string(summary.status),
                                     summary.steps.value, summary.seconds);
  if (summary.restarts > 0)
    absl::StrAppend(&text, ", ", summary.restarts,
                    summary.restarts == 1 ? " restart" : " restarts");
  absl::StrAppend(&text, "\n");
  if (summary.final_loss) add_line(text, "loss", absl::StrFormat("%.4f", *summary.final_loss));
  if (summary.validation_loss)
    add_line(text, "validation", absl::StrFormat("%.4f", *summary.validation_loss));
  if (summary.validation_accuracy) {
    add_line(text, "accuracy",
             absl::StrFormat("%.2f %% of held-out tokens", 100 * *summary.validation_accuracy));
  }
  if (summary.tokens_per_second)
    add_line(text, "speed", short_number(*summary.tokens_per_second) + " tokens/s");
  for (const FailureRecord& failure : summary.failures) add_line(text, "failure", to_text(failure));
  for (size_t i = 1; i < summary.membership.size(); ++i)
    add_line(text, "lanes", to_text(summary.membership[i]));
  for (const MoveRecord& move : summary.role_moves) add_line(text, "move", to_text(move));
  for (const StragglerRecord& straggler : summary.stragglers)
    add_line(text, "straggler", to_text(straggler));
  for (const SlowLinkRecord& link : summary.slow_links) add_line(text, "slow link", to_text(link));
  for (const ExpertMove& move : summary.moves) add_line(text, "experts", to_text(move));
  if (!summary.is_exact)
    add_line(text, "LOSSY",
             absl::StrFormat("experts have lost %.3f %% of their tokens",
                             100 * summary.lost_token_share));
  if (summary.checkpoint) add_line(text, "checkpoint", *summary.checkpoint);
  if (summary.digest) add_line(text, "digest", *summary.digest);
  add_line(text, "metrics", summary.metrics);
  add_line(text, "loss curve", summary.curve);
  return text;
}

std::string to_text(const StragglerRecord& straggler) {
  return absl::StrFormat(
      "%s on node %d at step %d: it computed %.2f times as long as others%s", straggler.role,
      straggler.node.value, straggler.step.value, straggler.factor,
      straggler.until < Step(0) ? "" : absl::StrCat(", until step ", straggler.until.value));
}

std::string to_text(const SlowLinkRecord& link) {
  return absl::StrFormat(
      "node %d to node %d at step %d: messages took %.1f times as long as usual%s", link.from.value,
      link.to.value, link.step.value, link.factor,
      link.until < Step(0) ? "" : absl::StrCat(", until step ", link.until.value));
}

std::string to_text(const LanesChanged& change) {
  return absl::StrCat(absl::StrJoin(change.lanes, " "), " from step ", change.step.value, " on",
                      change.nodes == 0 ? "" : absl::StrCat(", ", change.nodes),
                      change.nodes == 0   ? ""
                      : change.nodes == 1 ? " node"
                                          : " nodes",
                      change.cause.empty() ? "" : ": ", change.cause);
}

std::string to_text(const ExpertMove& move) {
  return absl::StrFormat(
      "step %d: the busiest lane has %.2f instead of %.2f times the mean, %.1f MB moved in %.2f s",
      move.step.value, move.imbalance_after, move.imbalance_before,
      static_cast<double>(move.moved_bytes) / 1e6, move.pause_seconds);
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "-";
  if (value >= 1e6) return absl::StrFormat("%.1fM", value / 1e6);
  if (value >= 1e4) return absl::StrFormat("%.1fk", value / 1e3);
  return absl::StrFormat("%.0f", value);
}

}  // namespace evermoe
