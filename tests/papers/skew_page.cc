#include "papers/results_page.h"

#include "absl/strings/str_cat.h"
#include "papers/page_text.h"
#include "papers/skew_study.h"
#include "planner/report/markdown_table.h"

namespace evermoe {
namespace {

constexpr int kDraws = 200;

std::string orders_table(const std::vector<SkewRow>& study) {
  MarkdownTable rows({"S", "S drawn", "by index", "unpopular first", "popular first", "by ratio",
                      "windows", "E[R], index (s)", "unpopular first (s)", "ETTR, index",
                      "unpopular first"});
  for (const SkewRow& row : study) {
    rows.add({fixed(row.skewness, 2), fixed(row.drawn, 3), percent(row.saved_index, 1),
              percent(row.saved_unpopular, 1), percent(row.saved_popular, 1),
              percent(row.saved_ratio, 1),
              absl::StrCat(row.window_index, ", ", row.window_unpopular),
              fixed(row.recovery_index, 2), fixed(row.recovery_unpopular, 2),
              fixed(row.ettr_index, 4), fixed(row.ettr_unpopular, 4)});
  }
  return rows.text();
}

std::string active_table(const std::vector<SkewRow>& study) {
  MarkdownTable rows({"S", "experts with tokens, of 64: paper", "drawn"});
  for (const SkewRow& row : study) rows.add({fixed(row.skewness, 2), "most", fixed(row.active, 1)});
  return rows.text();
}

std::string techniques_table(const PaperTables& tables) {
  MarkdownTable rows({"model", "sparse", "+ skip weight gradients", "+ reorder", "+ logs",
                      "gain by reordering: paper", "ours (points)"});
  const char* printed[] = {"0 %", "15 %", "32 %", "32 %"};
  int i = 0;
  for (const TechniqueRow& row : study_techniques(tables, kDraws)) {
    rows.add({row.model, fixed(row.sparse, 4), fixed(row.skips, 4), fixed(row.reorders, 4),
              fixed(row.logs, 4), printed[i++], signed_fixed(100 * (row.reorders - row.skips), 2)});
  }
  return rows.text();
}

}  // namespace

std::string skew_sections(const PaperTables& tables) {
  const std::vector<SkewRow> study = study_skew(tables, kDraws);
  return absl::StrCat(R"(
## MoEtion, Fig. 16: skewed experts and the order of a window

Popularity is drawn from the symmetric Dirichlet law of α = (1 / S - 1) / 64 (the paper's α are these), 200 draws for each S.
Two layers of DeepSeek-MoE, W = 6; the orders and windows are those of `src/protection/schedule`. The share of a conversion's
W - 1 steps that frozen operators leave out, by order; the shortest windows that the fitted bandwidth allows (by index,
unpopular first); what is run again after a failure (E[R], localized, no restart); ETTR at 10 minutes.

)",
                      orders_table(study), R"(
Holds: uniform popularity is the worst case for reordering, and skew makes it worth while. Does not hold: that the gain keeps
growing with S. At S = 0.25 the popular experts fit into the last slot already, and nothing is left to gain. Nor does its size:
weight gradients are a third of an expert's work, so no order can leave out more than a third of a conversion, and the
conversion is a part of E[R]. At 10 minutes the best order is worth a tenth of a point of ETTR. Windows depend on bytes,
which skew does not change. An order by index stays where it is at S = 0, on average; popular first is the worst.

## MoEtion, Fig. 15: experts that get tokens

An iteration has 8.4 million choices in each layer, drawn independently.

)",
                      active_table(study), R"(
"Most experts remain active" does not follow from the law that the paper names: at S = 0.99 (α = 0.000158) nearly all shares
are below 1e-100 and never get a token. The figure must come from routing that is not such a draw.

## MoEtion, Fig. 13: one technique after the other

Ours: ETTR at 10 minutes as techniques are added, at S = 0.25, no restart. The order is the paper's: each addition helps,
reordering least where there are 4 experts, logs most where there are 12 stages. The sizes cannot be met (see "Not compared").

)",
                      techniques_table(tables));
}

}  // namespace evermoe
