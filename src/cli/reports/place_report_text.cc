// place_report.h for people.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/reports/place_report.h"

namespace evermoe {
namespace {

constexpr size_t kLossesShown = 8;

// "0-3 7".
std::string ranges(const std::vector<int>& ids) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ids.size();) {
    size_t end = i;
    while (end + 1 < ids.size() && ids[end + 1] == ids[end] + 1) ++end;
    parts.push_back(end == i ? absl::StrCat(ids[i]) : absl::StrCat(ids[i], "-", ids[end]));
    i = end + 1;
  }
  return absl::StrJoin(parts, " ");
}

std::string chance(double lost) {
  return lost == 0     ? "never"
         : lost == 1   ? "always"
         : lost < 1e-4 ? absl::StrFormat("%.2g %%", 100 * lost)
                       : absl::StrFormat("%.3g %%", 100 * lost);
}

// "1: never, 2: 33.3 %, 3: always": from the last loss that cannot hurt on, in steps that grow, to
// the first that always does.
std::string curve_text(const std::optional<SurvivalCurve>& curve) {
  if (!curve) return "too many combinations to count\n";
  const std::vector<double>& lost = curve->lost;
  size_t count = 1;
  while (count + 1 < lost.size() && lost[count + 1] == 0) ++count;
  std::vector<std::string> parts;
  while (count < lost.size() && parts.size() < kLossesShown) {
    parts.push_back(absl::StrCat(count, ": ", chance(lost[count])));
    if (lost[count] == 1) break;
    count = parts.size() < 3 ? count + 1 : std::max(count + 1, count * 3 / 2);
  }
  return absl::StrCat(absl::StrJoin(parts, ", "), "\n");
}

std::string head_text(const PlaceReport& report) {
  const PlaceRequest& request = report.request;
  std::string text =
      absl::StrFormat("%d experts on %d nodes of %d slots, %s: ", request.loads.size(),
                      request.nodes, request.slots, to_string(request.method));
  const int sure = report.placement.distinct_least - 1;
  absl::StrAppend(&text,
                  sure == 0   ? "one failed node can lose an expert"
                  : sure == 1 ? "every expert survives any one failed node"
                              : absl::StrCat("every expert survives any ", sure, " failed nodes"),
                  "\n");
  absl::StrAppendFormat(&text, "  busiest node  %.3f times the mean load\n", report.slowdown);
  absl::StrAppend(
      &text, "  chance that some expert is lost, by failed nodes: ", curve_text(report.survival));
  if (request.racks > 0)
    absl::StrAppend(&text, "  the same by failed racks: ", curve_text(report.rack_survival));
  if (!report.too_close.empty())
    absl::StrAppend(&text, "  in one rack   experts ", ranges(report.too_close), "\n");
  return text;
}

std::string replicas_text(const PlaceReport& report) {
  const std::vector<int64_t>& loads = report.request.loads;
  const std::vector<int>& replicas = report.allocation.replicas;
  int64_t total = 0;
  size_t busiest = 0;
  auto load_of = [&](size_t expert) {
    return static_cast<double>(loads[expert]) / replicas[expert];
  };
  for (size_t e = 0; e < loads.size(); ++e) {
    total += loads[e];
    if (load_of(e) > load_of(busiest)) busiest = e;
  }
  const double even = static_cast<double>(total) /
                      (static_cast<double>(report.request.nodes) * report.request.slots);
  std::string text = absl::StrFormat(
      "replicas: every expert gets %d first (%d asked for), then the next one goes to the expert "
      "with most tokens\n"
      "  per replica; the most is %.4g (expert %d), a perfectly even share would be %.4g\n",
      report.allocation.faults, report.request.faults, load_of(busiest), busiest, even);
  absl::StrAppendFormat(&text, "  %8s %12s %9s %18s %18s\n", "expert", "load", "replicas",
                        "on each", "with one fewer");
  for (size_t e = 0; e < loads.size(); ++e) {
    const std::string fewer =
        replicas[e] > report.allocation.faults
            ? absl::StrFormat("%.4g", static_cast<double>(loads[e]) / (replicas[e] - 1))
            : "not allowed";
    absl::StrAppendFormat(&text, "  %8d %12d %9d %18.4g %18s\n", e, loads[e], replicas[e],
                          load_of(e), fewer);
  }
  return text;
}

std::string groups_text(const PlaceReport& report) {
  std::vector<std::set<int>> nodes_of(report.request.loads.size());
  for (size_t node = 0; node < report.placement.experts_of.size(); ++node) {
    for (const int expert : report.placement.experts_of[node])
      nodes_of[static_cast<size_t>(expert)].insert(static_cast<int>(node));
  }
  std::map<std::set<int>, std::vector<int>> groups;
  for (size_t e = 0; e < nodes_of.size(); ++e) groups[nodes_of[e]].push_back(static_cast<int>(e));
  std::string text =
      "nodes: experts on the same set of nodes are lost only if all of its nodes fail, so fewer "
      "different sets\n"
      "  leave fewer ways to lose an expert (maximum rank overlap)\n";
  if (report.placement.wraps_around)
    text += "  the last groups wrap around: otherwise some expert would be on too few nodes\n";
  for (const auto& [nodes, experts] : groups) {
    absl::StrAppendFormat(&text, "  nodes %s hold experts %s\n",
                          ranges(std::vector<int>(nodes.begin(), nodes.end())), ranges(experts));
  }
  return text;
}

std::string methods_text(const PlaceReport& report) {
  std::string text =
      "other placements of the same replicas: failed nodes that are always survived; chance that "
      "some expert is lost, by failed nodes\n";
  for (const PlaceReport::Method& other : report.methods) {
    absl::StrAppendFormat(&text, "  %-8s %4d; %s", to_string(other.method),
                          other.distinct_least - 1, curve_text(other.survival));
  }
  return text;
}

// " (was 4)" of a node that had another number, " (new)" of one that held nothing.
std::string number_before(const PlaceReport& report, size_t node) {
  if (!report.request.held) return "";
  const int before = report.request.held->numbers[node];
  if (before < 0) return " (new)";
  return before == static_cast<int>(node) ? "" : absl::StrCat(" (was ", before, ")");
}

std::string migration_text(const TransferPlan& plan) {
  std::string text = absl::StrFormat(
      "migration: %d transfers in %d rounds; a node sends %d and receives %d at "
      "most, one of each in a round\n",
      plan.transfers.size(), plan.rounds, plan.sent_max, plan.received_max);
  std::map<int, std::vector<std::string>> rounds;
  for (const ExpertTransfer& one : plan.transfers)
    rounds[one.round].push_back(
        absl::StrFormat("expert %d: %d -> %d", one.expert, one.source, one.destination));
  for (const auto& [round, transfers] : rounds)
    absl::StrAppendFormat(&text, "  round %-7d %s\n", round, absl::StrJoin(transfers, ", "));
  for (const ExpertFetch& one : plan.unavailable)
    absl::StrAppendFormat(&text, "  no live node holds expert %d: node %d reads it from a copy\n",
                          one.expert, one.node);
  return text;
}

}  // namespace

std::string to_text(const PlaceReport& report, bool explain) {
  std::string text = head_text(report);
  if (report.transfers) text += migration_text(*report.transfers);
  if (explain)
    return absl::StrCat(text, replicas_text(report), groups_text(report), methods_text(report));
  for (size_t node = 0; node < report.placement.experts_of.size(); ++node) {
    absl::StrAppendFormat(&text, "  node %-8s %s\n",
                          absl::StrCat(node, number_before(report, node)),
                          absl::StrJoin(report.placement.experts_of[node], " "));
  }
  return text;
}

}  // namespace evermoe
