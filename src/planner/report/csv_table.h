// Tables of numbers as text: comma-separated, a header line, quotes around fields that hold commas.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace evermoe {

inline constexpr int64_t kCsvBytesMax = 1 << 20;

class CsvTable {
 public:
  // InvalidInput with "origin:line: ..." if a row has another number of fields than the header, a
  // quote is not closed, or a name comes twice in the header.
  static absl::StatusOr<CsvTable> parse(const std::string& text, const std::string& origin);

  int rows() const { return static_cast<int>(rows_.size()); }
  bool has(const std::string& column) const { return columns_.contains(column); }

  // Reads fields of one row and remembers the first problem, so that a reader reads straight on.
  class Row {
   public:
    std::string text(const std::string& column);
    double number(const std::string& column);                     // finite
    double number_or(const std::string& column, double missing);  // where the field is empty
    const absl::Status& status() const { return status_; }

   private:
    friend class CsvTable;
    Row(const CsvTable& table, int index) : table_(table), index_(index) {}
    void problem(const std::string& column, const std::string& found, const std::string& allowed);

    const CsvTable& table_;
    const int index_;
    absl::Status status_;
  };
  // REQUIRES: 0 <= index < rows().
  Row row(int index) const { return Row(*this, index); }

 private:
  std::string origin_;
  std::map<std::string, size_t> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<int> line_of_row_;
};

}  // namespace evermoe
