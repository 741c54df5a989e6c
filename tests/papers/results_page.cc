#include "papers/results_page.h"

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

constexpr char kHead[] = R"(# Results: what papers claim, what the forecast says, what runs here

<!-- Written by the test ResultsPageTest with EVERMOE_WRITE_DOCS=1; the test compares. Edit tests/papers/*_page.cc instead. -->

*Paper* is what is printed. *Forecast* ("ours") is what `src/planner/`, `src/experts/` and `src/protection/` say from the
inputs that the paper prints. *Our runtime* is what real processes did, kept in `data/results/`. The forecast itself is held to
closed forms and to a run that is played step by step (`closed_forms_test.cc`, `naive_run_test.cc`). Where a paper cannot be
met because its numbers contradict each other, the section says so; what is not compared is at the end, with the reason.

Written again by `EVERMOE_WRITE_DOCS=1 build/tests_bin/paper_test --gtest_filter=ResultsPageTest.*`. A run becomes a row by
`build/keep_result DIR/report.json --machine TEXT --command TEXT > NAME.json`.

Words: T step time, I steps between saves, W window, M mean time between failures (MTBF), N = 12 h / M failures of a run, o
overhead per step as a share of T. *Ours* is the mean over 400 simulated runs of 12 hours with its 95 % interval, unless a
section says otherwise. *Scatter* is the standard deviation of one such run: a measured number, being one run, may miss the
expectation by about twice that without anything being wrong. Nothing is tuned unless it is called fitted or chosen.
)";

}  // namespace

std::string results_page(const ResultsInput& input) {
  return absl::StrCat(kHead, claims_section(input), runtime_section(input),
                      partial_experts_sections(input), lazarus_sections(input),
                      many_nodes_section(input), trainmover_sections(input),
                      skew_sections(input.tables), moetion_sections(input.tables),
                      planning_sections(input.tables), not_compared_section());
}

std::string not_compared_section() {
  return R"(
## Not compared

| what | why |
| --- | --- |
| MoEtion, Table 3, recovery of CheckFreq, of Gemini but for DeepSeek-MoE, and of MoEtion | multiples of the interval of another row; 0.13 to 0.34 of the paper's own formula |
| MoEtion, Table 4 | "simulated" values that rise as failures become more frequent, with either sign |
| MoEtion, Fig. 1b | 0.93 / 0.79 / 0.47 where Table 3, same set-up, has 0.910 / 0.853 / 0.728 |
| MoEtion, Fig. 12 and Table 5 | losses of other data and models; what it claims, that nothing is lost, is the column "bits at the end" above |
| MoEtion, Fig. 13, the ETTRs | base ETTRs of 0.37 to 0.57 mean 430 to 990 s per failure; the MTBF is not given. The order is compared |
| MoEtion, Fig. 16, MoC | its rule for K is not given; 0.134 in Table 3 would be its skewed end |
| PEC, Fig. 6 | accuracies of other data |
| PEC, Fig. 5c | seconds; neither bandwidths nor the size of an update are given |
| Lazarus, Fig. 7, the rise of the last 40 minutes | the forecast's replicas do not become faster when f is dropped |
| Lazarus, Fig. 10a, samples per second | a kernel's speed; the part that the loads decide is compared |
| Lazarus, Fig. 12 and 14 (Tutel, 16 nodes) | step time, accumulation's share and the rate of the shared file system are not given |
| Lazarus, Fig. 13, absolute ratios | contain what unequal loads cost, from a routing trace that is not published; their growth is compared |
| TrainMover, Fig. 8, 10 to 14, 17, 18 | seconds of NCCL and of GPUs' warm-up |
)";
}

}  // namespace evermoe
