// docs/forecast-vs-papers.md: every table that the forecast is compared with, with the difference
// and what can be expected of it.
#pragma once

#include <string>

#include "papers/paper_tables.h"

namespace evermoe {

// The whole page as Markdown. Deterministic. Simulates some ten thousand runs: about a second.
std::string forecast_vs_papers(const PaperTables& tables);

}  // namespace evermoe
