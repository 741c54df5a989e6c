// A Markdown table, built row by row.
#pragma once

#include <string>
#include <vector>

namespace evermoe {

class MarkdownTable {
 public:
  // Columns after the first are aligned to the right.
  explicit MarkdownTable(std::vector<std::string> columns);
  // REQUIRES: as many cells as columns.
  void add(const std::vector<std::string>& cells);
  // With a line break at the end of every row.
  const std::string& text() const { return text_; }

 private:
  size_t columns_;
  std::string text_;
};

}  // namespace evermoe
