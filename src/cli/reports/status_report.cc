#include "cli/reports/status_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "checkpoint/format/json_null.h"
#include "control/hosting/event_json.h"
#include "control/launch/move_summary.h"
#include "control/launch/run_summary.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

void add_line(std::string& text, const std::string& name, const std::string& value) {
  absl::StrAppendFormat(&text, "%-12s%s\n", name, value);
}

std::string seconds_text(absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds < 1 ? absl::StrFormat("%.1f ms", 1e3 * seconds)
                     : absl::StrFormat("%.1f s", seconds);
}

std::string step_text(const JobStatus& status) {
  if (status.step < Step(0)) return absl::StrCat("no step yet of ", status.steps.value);
  return absl::StrCat("step ", status.step.value, " of ", status.steps.value);
}

std::string roles_on(const JobStatus& status, Node node) {
  std::vector<std::string> names;
  for (const RoleStatus& role : status.roles) {
    if (role.phase == RoleStatus::Phase::kMissing || role.node != node) continue;
    const bool rests = role.phase == RoleStatus::Phase::kResting;
    names.push_back(rests ? absl::StrCat(role.name, " (rests)") : role.name);
  }
  return absl::StrJoin(names, " ");
}

std::vector<std::string> names_of(const JobStatus& status, const std::vector<Rank>& roles) {
  std::vector<std::string> names;
  for (const RoleStatus& role : status.roles) {
    if (std::ranges::count(roles, role.rank) > 0) names.push_back(role.name);
  }
  return names;
}

std::string plays(const JobStatus& status, const NodeStatus& node) {
  std::string text = roles_on(status, node.node);
  const size_t standbys = node.warm_standbys.size();
  if (standbys == 0) return text;
  std::set<std::string> warm_for;
  for (const std::vector<Rank>& roles : node.warm_standbys)
    warm_for.insert(roles.empty() ? "every role" : absl::StrJoin(names_of(status, roles), " "));
  return absl::StrCat(text, text.empty() ? "" : ", ", standbys,
                      standbys == 1 ? " warm standby (" : " warm standbys (",
                      absl::StrJoin(warm_for, "; "), ")");
}

int width_of_hosts(const JobStatus& status) {
  size_t width = 4;
  for (const NodeStatus& node : status.nodes) width = std::max(width, node.host.size());
  return static_cast<int>(width);
}

std::string node_table(const JobStatus& status) {
  const int host = width_of_hosts(status);
  std::string text =
      absl::StrFormat("node  %-*s  %-11s  %9s  roles\n", host, "host", "state", "silent");
  for (const NodeStatus& node : status.nodes) {
    const bool is_met = node.state != NodeStatus::State::kAbsent;
    std::string line = absl::StrFormat(
        "%4d  %-*s  %-11s  %9s  %s", node.node.value, host, node.host, to_string(node.state),
        is_met ? absl::StrFormat("%.1f s", absl::ToDoubleSeconds(node.silent)) : "",
        plays(status, node));
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  for (const NodeStatus& node : status.nodes) {
    if (!node.complaints.empty())
      absl::StrAppend(&text, "node ", node.node.value,
                      " is not fit: ", absl::StrJoin(node.complaints, "; "), "\n");
  }
  return text;
}

std::string phase_text(const RoleStatus& role) {
  if (role.slow_by == 1) return to_string(role.phase);
  return absl::StrFormat("%s, a straggler: %.2f times as long as others", to_string(role.phase),
                         role.slow_by);
}

std::string role_table(const JobStatus& status) {
  std::string text = "role    node       pid  phase\n";
  for (const RoleStatus& role : status.roles) {
    absl::StrAppendFormat(&text, "%-6s  %4d  %8s  %s\n", role.name, role.node.value,
                          role.pid == 0 ? "-" : absl::StrCat(role.pid), phase_text(role));
  }
  return text;
}

Json survives_json(const SurvivableLosses& losses) {
  Json fatal = Json::array();
  for (const auto& set : losses.fatal) {
    Json nodes = Json::array();
    for (const Node node : set) nodes.push_back(node.value);
    fatal.push_back(std::move(nodes));
  }
  return {{"text", to_text(losses)},          {"known", losses.is_known},
          {"protected", losses.is_protected}, {"any_nodes", losses.any},
          {"fatal", std::move(fatal)},        {"fatal_sets", losses.fatal_sets}};
}

}  // namespace

std::string short_text(const JobStatus& status) {
  return absl::StrCat(step_text(status), ", view ", status.view.value,
                      status.is_open ? "" : " (opening)");
}

std::string to_text(const JobStatus& status) {
  std::string text;
  std::string job =
      absl::StrCat(step_text(status), ", ", seconds_text(status.median_step), " a step; view ",
                   status.view.value, status.is_open ? "" : ", which is opening");
  if (status.is_draining) absl::StrAppend(&job, "; draining");
  add_line(text, "job", job);
  add_line(text, "saved",
           absl::StrCat(status.window < Step(0)
                            ? std::string("no window in memory yet")
                            : absl::StrCat("window ", status.window.value, " in memory"),
                        status.durable < Step(0)
                            ? std::string()
                            : absl::StrCat(", step ", status.durable.value, " on disk")));
  add_line(text, "survives", to_text(status.survives));
  if (status.experts) add_line(text, "experts", "moved at " + to_text(*status.experts));
  if (status.move) add_line(text, "move", to_text(*status.move));
  for (const SlowLink& link : status.slow_links)
    add_line(text, "slow link",
             absl::StrFormat("from node %d to node %d: messages take %.1f times as long as usual",
                             link.from.value, link.to.value, link.factor));
  add_line(text, "failures",
           absl::StrCat(status.failures, status.ettr < 0
                                             ? std::string()
                                             : absl::StrFormat("; ETTR %.2f over %s", status.ettr,
                                                               seconds_text(status.elapsed))));
  add_line(text, "controller",
           absl::StrCat("number ", status.life, " of term ", status.term.number));
  return absl::StrCat(text, "\n", node_table(status), "\n", role_table(status));
}

std::string to_json(const JobStatus& status) {
  Json json;
  json["step"] = or_null(status.step);
  json["steps"] = status.steps.value;
  json["view"] = status.view.value;
  json["open"] = status.is_open;
  json["draining"] = status.is_draining;
  json["window"] = or_null(status.window);
  json["durable_step"] = or_null(status.durable);
  json["survives"] = survives_json(status.survives);
  json["experts"] = status.experts ? rebalance_json(*status.experts) : Json();
  json["move"] = status.move ? move_json(*status.move) : Json();
  json["links_known"] = status.links_known;
  json["slow_links"] = Json::array();
  for (const SlowLink& link : status.slow_links)
    json["slow_links"].push_back(
        {{"from", link.from.value}, {"to", link.to.value}, {"factor", link.factor}});
  json["failures"] = status.failures;
  json["ettr"] = status.ettr < 0 ? Json() : Json(status.ettr);
  json["median_step_seconds"] = absl::ToDoubleSeconds(status.median_step);
  json["elapsed_seconds"] = absl::ToDoubleSeconds(status.elapsed);
  json["life"] = status.life;
  json["term"] = status.term.number;
  json["term_owner"] = status.term.owner;
  json["nodes"] = Json::array();
  for (const NodeStatus& node : status.nodes) {
    const bool is_met = node.state != NodeStatus::State::kAbsent;
    Json warm_for = Json::array();
    for (const std::vector<Rank>& roles : node.warm_standbys)
      warm_for.push_back(names_of(status, roles));
    json["nodes"].push_back(
        {{"node", node.node.value},
         {"host", node.host},
         {"state", to_string(node.state)},
         {"complaints", node.complaints},
         {"standbys", node.warm_standbys.size()},
         {"standbys_warm_for", warm_for},
         {"silent_seconds", is_met ? Json(absl::ToDoubleSeconds(node.silent)) : Json()}});
  }
  json["roles"] = Json::array();
  for (const RoleStatus& role : status.roles) {
    json["roles"].push_back({{"role", role.name},
                             {"rank", role.rank.value},
                             {"node", role.node.value},
                             {"pid", role.pid == 0 ? Json() : Json(role.pid)},
                             {"phase", to_string(role.phase)},
                             {"slow_by", role.slow_by}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace evermoe
