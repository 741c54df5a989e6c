#include "planner/report/markdown_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace evermoe {

MarkdownTable::MarkdownTable(std::vector<std::string> columns) : columns_(columns.size()) {
  add(columns);
  for (size_t i = 0; i < columns_; ++i) absl::StrAppend(&text_, i == 0 ? "| --- |" : " --: |");
  text_ += '\n';
}

void MarkdownTable::add(const std::vector<std::string>& cells) {
  CHECK(cells.size() == columns_) << cells.size() << " cells, " << columns_ << " columns";
  absl::StrAppend(&text_, "| ", absl::StrJoin(cells, " | "), " |\n");
}

}  // namespace evermoe
