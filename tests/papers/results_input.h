// What docs/results.md is made from, out of the project's files.
#pragma once

#include "papers/results_page.h"

namespace evermoe {

// data/planner and data/results of the sources. InvalidInput with one line for a file that is
// missing or wrong.
absl::StatusOr<ResultsInput> load_results_input();
absl::StatusOr<PaperTexts> paper_texts();

// The text of a file of the sources.
absl::StatusOr<std::string> source_text(const std::string& name);
std::string source_path(const std::string& name);

}  // namespace evermoe
