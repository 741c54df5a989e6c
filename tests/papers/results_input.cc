#include "papers/results_input.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/files.h"

namespace evermoe {
namespace {

absl::StatusOr<std::vector<KeptResult>> load_kept() {
  const std::string folder = source_path("data/results");
  ASSIGN_OR_RETURN(std::vector<std::string> names, real_files().list(folder));
  std::sort(names.begin(), names.end());
  std::vector<KeptResult> kept;
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".json")) continue;
    ASSIGN_OR_RETURN(const std::string text, source_text("data/results/" + name));
    ASSIGN_OR_RETURN(RuntimeResult result, parse_runtime_result(text, name));
    kept.push_back({name, std::move(result)});
  }
  return kept;
}

}  // namespace

std::string source_path(const std::string& name) {
  return absl::StrCat(EVERMOE_SOURCE_DIR, "/", name);
}

absl::StatusOr<std::string> source_text(const std::string& name) {
  return read_file(real_files(), source_path(name), kRuntimeResultBytesMax);
}

absl::StatusOr<PaperTexts> paper_texts() {
  PaperTexts texts;
  ASSIGN_OR_RETURN(texts.table3, source_text("data/planner/table3_ettr.csv"));
  ASSIGN_OR_RETURN(texts.table6, source_text("data/planner/table6_memory.csv"));
  ASSIGN_OR_RETURN(texts.table7, source_text("data/planner/table7_low_precision.csv"));
  ASSIGN_OR_RETURN(texts.derived_inputs, source_text("data/planner/derived_inputs.csv"));
  ASSIGN_OR_RETURN(texts.reported_mttf, source_text("data/planner/reported-mttf.csv"));
  ASSIGN_OR_RETURN(texts.six_hours_trace,
                   source_text("data/planner/bamboo-g4dn-6h-24instants.csv"));
  return texts;
}

absl::StatusOr<ResultsInput> load_results_input() {
  ResultsInput input;
  ASSIGN_OR_RETURN(const PaperTexts texts, paper_texts());
  ASSIGN_OR_RETURN(input.tables, parse_paper_tables(texts));
  ASSIGN_OR_RETURN(const std::string routing,
                   source_text("data/planner/smartmoe-expert-loads.csv"));
  ASSIGN_OR_RETURN(input.routing, parse_routing(routing));
  ASSIGN_OR_RETURN(const std::string spot, source_text("data/planner/bamboo-ec2-p3.csv"));
  ASSIGN_OR_RETURN(input.spot, parse_instance_trace(spot, "bamboo-ec2-p3.csv"));
  ASSIGN_OR_RETURN(input.kept, load_kept());
  ASSIGN_OR_RETURN(input.profile, load_runtime_profile(
                                      real_files(), source_path("data/results/job-profile.toml")));
  return input;
}

}  // namespace evermoe
