// A plan as a page: html_report.h.
#include "absl/strings/str_cat.h"
#include "planner/report/amount_text.h"
#include "planner/report/html_report.h"
#include "planner/report/report_blocks.h"
#include "planner/report/report_charts.h"

namespace evermoe {
namespace {

ReportTable candidates_table(const ProtectionPlan& plan,
                             const std::vector<const PlanCandidate*>& candidates) {
  ReportTable table{.title = "All candidates",
                    .note =
                        "Sorted by the share of all nodes' time, idle spares included, that stays "
                        "done as training.",
                    .columns = {"Plan", "Share of all nodes' time", "ETTR", "Spares",
                                "Downtime a day", "Lost work", "Runs today"}};
  for (const PlanCandidate* candidate : candidates) {
    const RunEstimates& runs = candidate->estimates;
    table.rows.push_back(
        {candidate->priced.strategy.name, percent_text(candidate->score), ettr_text(runs.ettr),
         absl::StrCat(candidate->spares), duration_text(kDaySeconds * runs.downtime_share.mean),
         percent_text(runs.rework_share.mean),
         candidate->runs_today() ? "yes" : absl::StrCat("no: ", candidate->missing)});
  }
  for (const ProtectionRefused& refused : plan.refused)
    table.rows.push_back(
        {refused.name, "-", "-", "-", "-", "-", absl::StrCat("not possible: ", refused.reason)});
  return table;
}

}  // namespace

ReportPage report_page(const ProtectionPlan& plan) {
  constexpr size_t kCompared = 10;
  const RunEstimates& runs = plan.best.estimates;
  ReportPage page{.title =
                      absl::StrCat("Plan: ", plan.model, " on ", plan.cluster.nodes, " nodes of ",
                                   plan.cluster.gpus_per_node, " ", plan.cluster.gpu.name)};
  page.summary = absl::StrCat("Best: ", plan.best.priced.strategy.name, ". Of 30 days, ",
                              duration_text(kMonthSeconds * runs.ettr.mean),
                              " are expected to stay done as training.");
  page.blocks.push_back(
      ReportTiles{{{"Time that stays done as training (ETTR)", percent_text(runs.ettr.mean),
                    plan.best.priced.strategy.name},
                   {"Tokens per second", count_text(plan.tokens_per_second),
                    absl::StrCat(duration_text(plan.step.profile.step_seconds), " a step")},
                   {"Spares", absl::StrCat(plan.best.spares, " nodes"),
                    absl::StrCat("enough ", percent_text(plan.spares_suffice), " of the time")},
                   {"Failures", absl::StrCat("one every ", duration_text(plan.job_mtbf_seconds)),
                    failures_text(plan.cluster)}}});
  page.blocks.push_back(share_strip(runs));
  page.blocks.push_back(share_table(runs));
  std::vector<const PlanCandidate*> candidates{&plan.best};
  for (const PlanCandidate& other : plan.others) candidates.push_back(&other);
  std::vector<std::string> labels;
  std::vector<const RunEstimates*> points;
  for (const PlanCandidate* candidate : candidates) {
    if (labels.size() == kCompared) break;
    labels.push_back(candidate->priced.strategy.name);
    points.push_back(&candidate->estimates);
  }
  page.blocks.push_back(
      losses_chart("What is lost under the best plans, by cause",
                   "All wall time that is not training that stays done. Idle spares are not in it.",
                   "plan", labels, points));
  page.blocks.push_back(ReportNotes{"Why", plan.reasons});
  page.blocks.push_back(candidates_table(plan, candidates));
  return page;
}

}  // namespace evermoe
