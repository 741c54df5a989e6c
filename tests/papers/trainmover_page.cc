#include "papers/results_page.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "papers/page_text.h"
#include "papers/trainmover_comparison.h"
#include "planner/report/amount_text.h"
#include "planner/report/markdown_table.h"

namespace evermoe {
namespace {

constexpr int kWasteRuns = 40;

std::string waste_section() {
  MarkdownTable rows({"GPUs", "MTBF", "standby wastes", "no standby", "Parcae",
                      "below no standby: paper", "ours", "below Parcae: paper", "ours"});
  for (const WasteComparison& row : compare_waste(kWasteRuns)) {
    const bool is_8k = row.gpus == 8192, is_128k = row.gpus == 131072;
    rows.add({absl::StrCat(row.gpus), duration_text(row.mtbf_seconds), percent(row.standby, 2),
              percent(row.no_standby, 2), percent(row.parcae, 2),
              is_8k                          ? "35.91 %"
              : is_128k || row.gpus == 65536 ? "55 %"
                                             : "",
              percent(row.below_no_standby(), 1),
              is_8k              ? "82.77 %"
              : is_128k          ? "88 %"
              : row.gpus == 1024 ? "none: \"slightly higher\""
                                 : "",
              percent(row.below_parcae(), 1)});
  }
  return absl::StrCat(R"(
## TrainMover, Fig. 9: GPU hours that a week wastes

Ours: simulated weeks; an interruption costs 25 s with a standby, 55.5 s without and 206 s for Parcae at every size, and an
idle standby of 8 GPUs is waste. These three are fitted, and all printed percentages follow from them within two points: the
paper agrees with itself. (It counts failures during a recovery as if training had gone on, which ours does not.) They leave no room for the two minutes of rescheduling that it says it adds to every system: with 145, 175.5 and
326 s a standby would save 17 % at 128K, not 55 %. At 1K the standby costs more than it saves, as the paper says.

)",
                      rows.text());
}

std::string rebalancing_section() {
  MarkdownTable rows({"system, GPUs", "pause", "paper", "ours"});
  auto add = [&](const char* name, double seconds, bool migrates, const char* paper) {
    rows.add(
        {name, absl::StrCat(seconds, " s"), paper, fixed(rebalanced_ettr(seconds, migrates), 3)});
  };
  add("TrainMover, 32", 6.15, true, "0.99");
  add("TrainMover, 1024", 16, true, "0.97");
  add("Megatron-LM, 1024 (Fig. 15)", 221, false, "0.42");
  add("Megatron-LM, 1024 (Fig. 8)", 300, false, "0.42");
  return absl::StrCat(R"(
## TrainMover, Fig. 16: a machine replaced every 10 minutes

Ours: six simulated hours of announced departures, with the pauses that other figures print. Megatron-LM's 0.42 means that 348
of 600 s are lost, more than any pause printed for it: saving at every iteration must cost the rest, which is not given. "No
more than 0.1 % lost" beside 0.99 cannot be: 1 % of 600 s is the pause of 6 s.

)",
                      rows.text());
}

std::string restart_section() {
  MarkdownTable rows({"GPUs", "MTBF", "paper", "ours"});
  rows.add({"64K", "27 min", "16.47 %", percent(restarts_share(4.45 * 60, 1620, kWasteRuns), 1)});
  rows.add({"128K", "14 min", "31.79 %", percent(restarts_share(4.45 * 60, 840, kWasteRuns), 1)});
  return absl::StrCat(R"(
## TrainMover, Fig. 2: what restarts of 4.45 minutes cost

The paper's are R / M, which counts failures that come during a restart as if training had gone on. Ours: simulated weeks, a
restart that is hit begins again.

)",
                      rows.text());
}

}  // namespace

std::string trainmover_sections() {
  return absl::StrCat(waste_section(), rebalancing_section(), restart_section());
}

}  // namespace evermoe
