#include "papers/results_page.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "papers/page_text.h"
#include "papers/trainmover_comparison.h"
#include "papers/trainmover_projection.h"
#include "planner/report/amount_text.h"
#include "planner/report/markdown_table.h"

namespace evermoe {
namespace {

constexpr int kWasteRuns = 40, kProjectionRuns = 16;

// What data/results/job-profile.toml is of.
constexpr char kProfiledJob[] = "four ranks (2 stages of 2 lanes on 2 nodes, 94 MB of state each)";
constexpr char kProfileCommand[] =
    "evermoe profile --job bench/train/bench.toml --strategy sparse --strategy gradients "
    "--set run.nodes=2 --set parallel.stages=2 --set parallel.lanes=2 --set train.precision=bf16 "
    "--set train.micro_batches=2 --set train.micro_batch_size=1 --set model.sequence_length=64";

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

// Seconds of an event's phases, and their sum.
void add_phases(const std::string& event, const std::vector<double>& phases, MarkdownTable& rows) {
  std::vector<std::string> cells{event};
  double sum = 0;
  for (const double seconds : phases) {
    cells.push_back(fixed(seconds, 3));
    sum += seconds;
  }
  cells.push_back(fixed(sum, 3));
  rows.add(std::move(cells));
}

void add_loss(const std::string& event, const LossProfile& loss, MarkdownTable& rows) {
  add_phases(event,
             {loss.detect_seconds, loss.view_seconds, loss.load_seconds,
              loss.steps_again * loss.step_again_seconds, loss.settle_seconds},
             rows);
}

std::string breakdown_section(const RuntimeProfile& profile) {
  MarkdownTable rows({"event", "until it is known, or handed over", "processes and view", "state",
                      "steps again", "first steps", "together"});
  for (const StrategyProfile& one : profile.strategies) {
    const std::string with = absl::StrCat(", `", std::string(to_string(one.kind)), "`");
    if (one.move.moves > 0)
      add_phases(absl::StrCat("a node announced: its roles move", with),
                 {one.move.hand_over_seconds, one.move.switch_seconds, one.move.load_seconds, 0,
                  one.move.settle_seconds},
                 rows);
    if (one.standby.failures > 0)
      add_loss(absl::StrCat("a worker lost, a standby takes over", with), one.standby, rows);
    const bool is_whole_job = one.kind == StrategyKind::kNone;
    add_loss(absl::StrCat(is_whole_job ? "a worker lost, everybody starts again from disk"
                                       : "a worker lost, a new process (naive migration)",
                          with),
             one.worker, rows);
    if (one.node.failures > 0)
      add_loss(absl::StrCat(is_whole_job ? "a node lost, everybody starts again from disk"
                                         : "a node lost, new processes (naive migration)",
                            with),
               one.node, rows);
  }
  return absl::StrCat(R"(
## TrainMover, Table 1 and Fig. 15: where the downtime goes

The paper, seconds: a restart of 8,192 GPUs stops for 31, reschedules for 90, loads for 94, connects NCCL for 65 and warms up
for 108; of 1,024 GPUs Megatron-LM loads for 104, warms up for 66 and connects for 51 (221 together), naive migration needs 1.8 times
less, with connections prepared beforehand 7 s instead of 51 for them, and 16 s in all with the sandbox. Ours, seconds, of a job of
)",
                      kProfiledJob, R"(: `data/results/job-profile.toml`, by
`)",
                      kProfileCommand, R"(`,
on 2 cores of an AMD EPYC that others used, too. Means of two moves, two node losses and six lost workers. *First steps*: what they
take longer than usual, less than nothing where the step under way was short. From disk the steps since the checkpoint are trained again
besides. Not comparable: processes here start in tenths of a second, because nothing of a GPU is warmed up and UCX connects four.
What compares are the shares: a move has no start of a process in it, nor steps that run again.

)",
                      rows.text());
}

std::string projected(const RuntimeProfile& profile, const GpuSeconds& gpu) {
  MarkdownTable rows({"GPUs", "MTBF", "a standby and moves waste", "no standby", "restarts",
                      "below no standby: paper", "ours", "below Parcae: paper",
                      "below restarts: ours"});
  for (const WasteScale& scale : kWasteScales) {
    const ProjectedWaste row = project_waste(profile, gpu, scale, kProjectionRuns);
    const bool is_8k = row.gpus == 8192, is_128k = row.gpus == 131072;
    rows.add({absl::StrCat(row.gpus), duration_text(row.mtbf_seconds), percent(row.standby, 2),
              percent(row.no_standby, 2), percent(row.restarts, 2),
              is_8k     ? "35.91 %"
              : is_128k ? "55 %"
                        : "",
              percent(row.below_no_standby(), 1),
              is_8k     ? "82.77 %"
              : is_128k ? "88 %"
                        : "",
              percent(row.below_restarts(), 1)});
  }
  return rows.text();
}

std::string projection_section(const RuntimeProfile& profile) {
  return absl::StrCat(R"(
## TrainMover, Fig. 9, with our measured phases

A projection and no measurement: forecasts (`--recovery`) of mixtral-8x7b with the profile above, of which they have a new process
()",
                      fixed(profile.recovery->restart_seconds, 2), " s), a standby (",
                      fixed(profile.recovery->standby_seconds, 2),
                      " s) and the fixed part of a move (",
                      fixed(profile.recovery->migrate_seconds, 2),
                      R"( s); 1 : 8.9 announced to unannounced, and 10 s
until a machine that is off is noticed. Shares of GPU hours: downtime, work done again, and with a standby 8 idle GPUs; what captures
cost in steps without failures is left out. *No standby*: processes that are started then, and moves as well. *Restarts*: `checkfreq`,
everybody from storage of 5 GB/s; it is not Parcae, which is only printed beside it. Another machine is at hand after two minutes.

What scales with what: a state's way with its bytes for each GPU over the link (once for a loss, twice for a move; at 25 GB/s for 8 GPUs
3.2 s and 6.4 s for each 10 GB), steps run again with the window and the step, both as forecast for each size; detection with nothing.
Processes, switch and first steps are held at what four ranks on two cores took, as the paper holds its own at 1,024 GPUs, and that is
less than any cluster will see:

)",
                      projected(profile, {}), R"(
So a standby, which saves the start of a process, saves nothing where that takes half a second, and its idle GPUs are lost. With what
Table 1 says that a GPU needs, 108 s of warm-up for a process that starts and 65 s of NCCL at every event, because the runtime does not
connect before the switch yet:

)",
                      projected(profile, kGpuSecondsOfTable1), R"(
The paper's TrainMover connects beforehand: its 25 s (above) are less than these 65. That is what preparing connections would be worth.
)");
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

std::string trainmover_sections(const ResultsInput& input) {
  return absl::StrCat(waste_section(), breakdown_section(input.profile),
                      projection_section(input.profile), rebalancing_section(), restart_section());
}

}  // namespace evermoe
