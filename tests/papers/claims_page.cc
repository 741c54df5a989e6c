#include "papers/results_page.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "papers/page_text.h"
#include "papers/paper_comparison.h"
#include "planner/report/markdown_table.h"

namespace evermoe {
namespace {

constexpr int kClaimRuns = 400;
constexpr char kNotRun[] = "not run yet";

struct ClaimedSystem {
  const char* name;      // in the paper
  const char* strategy;  // of this runtime
};
constexpr ClaimedSystem kSystems[] = {{"CheckFreq", "checkfreq"},
                                      {"Gemini", "peer-memory"},
                                      {"MoC", "partial-experts"},
                                      {"MoEtion", "sparse"}};

// The mean time between failures in steps of the paper's model, as experiments name it.
std::string scaled_process(double mtbf_seconds, double step_seconds) {
  return absl::StrCat("exponential-", std::lround(mtbf_seconds / step_seconds));
}

std::string measured_ettr(const ExperimentResult* result) {
  if (result == nullptr) return kNotRun;
  if (!result->ettr) return "no run finished";
  std::string text = fixed(*result->ettr, 3);
  if (result->ettr_half_width) absl::StrAppend(&text, " ± ", fixed(*result->ettr_half_width, 3));
  return text;
}

std::string predicted_ettr(const ExperimentResult& result) {
  return result.predicted_ettr ? fixed(*result.predicted_ettr, 3) : "none";
}

std::string forecast_ettr(const PaperTables& tables, const PaperEttrRow& row,
                          const std::vector<EttrComparison>& moetion) {
  if (row.system == "MoC") return "";
  if (row.system != "MoEtion")
    return fixed(dense_row_ettr(tables.inputs_of("Table 3", row.model), row, 0, 0), 3);
  for (const EttrComparison& ours : moetion) {
    if (ours.paper.model == row.model && ours.paper.mtbf == row.mtbf)
      return fixed(ours.ours.mean, 3);
  }
  return "";
}

std::string same_failures(const ResultsInput& input, const std::string& model) {
  const double step = input.tables.inputs_of("Table 3", model).step_seconds;
  const auto moetion = compare_moetion(input.tables, "Table 3", kFormulaReading, kClaimRuns);
  MarkdownTable rows({"MTBF", "as", "system", "paper", "forecast", "strategy here", "our runtime",
                      "predicted", "failures met", "step (s)"});
  for (const PaperEttrRow& row : input.tables.table3) {
    if (row.model != model) continue;
    for (const ClaimedSystem& system : kSystems) {
      if (row.system != system.name) continue;
      const std::string process = scaled_process(row.mtbf_seconds, step);
      const ExperimentResult* const run = find_result(input.kept, system.strategy, process);
      rows.add({row.mtbf, process, row.system, fixed(row.ettr, 3),
                forecast_ettr(input.tables, row, moetion), absl::StrCat("`", system.strategy, "`"),
                measured_ettr(run), run == nullptr ? "" : predicted_ettr(*run),
                run == nullptr ? "" : absl::StrCat(run->failures),
                run == nullptr ? "" : fixed(run->step_seconds, 3)});
    }
  }
  return rows.text();
}

std::string error_text(const ExperimentResult& result) {
  if (!result.ettr || !result.predicted_ettr) return "";
  return signed_fixed(100 * (*result.predicted_ettr - *result.ettr), 1);
}

std::string bits_text(const ExperimentResult& result) {
  if (!result.is_exact) return "lossy";
  return result.digests == 1 ? "equal" : absl::StrCat(result.digests, " different");
}

std::string runs_of(const KeptResult& kept) {
  MarkdownTable rows({"failures", "system", "runs", "failures met", "ETTR", "predicted",
                      "error (points)", "step (s)", "tokens lost", "bits at the end"});
  for (const ExperimentResult& of : kept.result.experiments) {
    std::string runs = absl::StrCat(of.runs);
    if (of.unfinished > 0) absl::StrAppend(&runs, ", ", of.unfinished, " unfinished");
    rows.add({of.failure_process, absl::StrCat("`", of.system, "`"), runs,
              absl::StrCat(of.failures), measured_ettr(&of), predicted_ettr(of), error_text(of),
              fixed(of.step_seconds, 3), percent(of.lost_token_share, 2), bits_text(of)});
  }
  return absl::StrCat("\n`data/results/", kept.file, "`: ", kept.result.command, ", on ",
                      kept.result.machine, ".\n\n", rows.text());
}

}  // namespace

const ExperimentResult* find_result(const std::vector<KeptResult>& kept, const std::string& system,
                                    const std::string& failure_process) {
  for (const KeptResult& file : kept) {
    for (const ExperimentResult& result : file.result.experiments) {
      if (result.system == system && result.failure_process == failure_process) return &result;
    }
  }
  return nullptr;
}

std::string claims_section(const ResultsInput& input) {
  return absl::StrCat(R"(
## Every system under the same failures: MoEtion, Table 3, DeepSeek-MoE

Scaled: what matters is how many steps lie between failures, so 10 minutes with the paper's steps of 2.9 s are
`exponential-207` here, whatever a step takes. State is not scaled: recoveries cost what they cost here, which is more steps
where these are shorter: compare rows of the same step. The forecast has the printed interval and overhead and nothing
fitted; of MoC it has nothing, because the paper does not say how MoC raises K.
Predicted is what the experiment said of its own runs from a measured profile of the job, and so belongs to "our runtime".
The paper's CheckFreq and Gemini contain a restart of 40 to 140 s for each failure that no formula of it has (below).
Commands: `evermoe experiment configs/experiments/strategies.toml --out DIR --json` for 10 minutes, and `papers.toml`.

)",
                      same_failures(input, "DeepSeek-MoE"), R"(
From 20 minutes on rows are of `configs/tiny.toml`, one run each. Its state is 10 MB: a restart from disk takes half a second,
where the paper's take 40 s and more, and protecting takes about a tenth of steps of 0.05 s (copying is 1 % of longer ones:
[benchmarks.md](benchmarks.md)). So the systems are nearer to each other than the paper's, and in another order. ETTR is known
to about 0.1, because the machine's speed changed by up to a fifth from one yardstick to the next. A seed's laws are one
sequence of draws; this one begins with four failures in the first mean time.
)");
}

std::string runtime_section(const ResultsInput& input) {
  std::string text = R"(
## Our runtime

Real processes, real kills (SIGKILL to workers), every strategy under the same ones; what the columns mean is in
[experiments.md](experiments.md). Predicted: the experiment's own prediction, which plays the failures of its runs to a profile
of the job that was measured on the same machine; "none" where it was run without one. "Equal" bits: all runs of the strategy ended with one digest.
)";
  const size_t head = text.size();
  for (const KeptResult& kept : input.kept) {
    if (!kept.result.experiments.empty()) absl::StrAppend(&text, runs_of(kept));
  }
  if (text.size() == head) absl::StrAppend(&text, "\nNot run yet.\n");
  return text;
}

}  // namespace evermoe
