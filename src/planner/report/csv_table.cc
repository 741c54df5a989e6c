#include "planner/report/csv_table.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr size_t kShownMax = 60;

std::string shown(const std::string& text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, kShownMax)), "\"");
}

absl::Status bad(const std::string& origin, int line, const std::string& found,
                 const std::string& allowed) {
  return InvalidInput(absl::StrCat(origin, ":", line, ": found ", found, ", allowed: ", allowed));
}

// Nothing if a quote stays open. "" inside quotes is one quote.
std::optional<std::vector<std::string>> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool in_quotes = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_quotes && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      in_quotes = !in_quotes;
    } else if (c == ',' && !in_quotes) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (in_quotes) return std::nullopt;
  return fields;
}

}  // namespace

absl::StatusOr<CsvTable> CsvTable::parse(const std::string& text, const std::string& origin) {
  if (std::ssize(text) > kCsvBytesMax) {
    return bad(origin, 1, absl::StrCat(text.size(), " bytes"),
               absl::StrCat("at most ", kCsvBytesMax));
  }
  CsvTable table;
  table.origin_ = origin;
  int line_number = 0;
  for (std::string line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    std::optional<std::vector<std::string>> fields = fields_of(line);
    if (!fields) return bad(origin, line_number, shown(line), "closed quotes");
    if (table.columns_.empty()) {
      for (const std::string& name : *fields) {
        const bool is_new = table.columns_.emplace(name, table.columns_.size()).second;
        if (!is_new) return bad(origin, line_number, shown(name), "each column once");
      }
    } else if (fields->size() != table.columns_.size()) {
      return bad(origin, line_number, absl::StrCat(fields->size(), " fields"),
                 absl::StrCat(table.columns_.size(), " as in the header"));
    } else {
      table.rows_.push_back(*std::move(fields));
      table.line_of_row_.push_back(line_number);
    }
  }
  if (table.columns_.empty()) return bad(origin, 1, "nothing", "a header");
  return table;
}

void CsvTable::Row::problem(const std::string& column, const std::string& found,
                            const std::string& allowed) {
  if (!status_.ok()) return;
  status_ = bad(table_.origin_, table_.line_of_row_[static_cast<size_t>(index_)],
                absl::StrCat(found, " in column ", column), allowed);
}

std::string CsvTable::Row::text(const std::string& column) {
  const auto at = table_.columns_.find(column);
  if (at != table_.columns_.end()) return table_.rows_[static_cast<size_t>(index_)][at->second];
  problem(column, "no field", "a table with this column");
  return "";
}

double CsvTable::Row::number(const std::string& column) {
  const std::string found = text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  if (error == std::errc() && end == found.data() + found.size() && std::isfinite(value))
    return value;
  problem(column, shown(found), "a number");
  return 0;
}

double CsvTable::Row::number_or(const std::string& column, double missing) {
  return text(column).empty() ? missing : number(column);
}

}  // namespace evermoe
