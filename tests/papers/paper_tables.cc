#include "papers/paper_tables.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "planner/report/csv_table.h"

namespace evermoe {
namespace {

constexpr double kGigabyte = 1e9;

// `read` fills one row.
template <typename Result, typename Read>
absl::StatusOr<std::vector<Result>> read_rows(const std::string& text, const std::string& name,
                                              Read read) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::parse(text, name));
  std::vector<Result> rows;
  for (int i = 0; i < table.rows(); ++i) {
    CsvTable::Row row = table.row(i);
    rows.push_back(read(row));
    RETURN_IF_ERROR(row.status());
  }
  return rows;
}

PaperEttrRow read_ettr(CsvTable::Row& row) {
  return {.mtbf = row.text("mtbf"),
          .mtbf_seconds = row.number("mtbf_s"),
          .system = row.text("system"),
          .interval_steps = row.number("interval_iterations"),
          .window = static_cast<int>(row.number_or("w_sparse_iterations", 0)),
          .overhead_seconds = row.number("overhead_s_per_iteration"),
          .recovery_seconds = row.number("total_recovery_time_s"),
          .ettr = row.number("ettr_fraction")};
}

PaperEttrRow read_table3(CsvTable::Row& row) {
  PaperEttrRow result = read_ettr(row);
  result.model = row.text("model");
  return result;
}

PaperEttrRow read_table7(CsvTable::Row& row) {
  PaperEttrRow result = read_ettr(row);
  result.model = absl::StrCat(row.text("compute_weight"), "/", row.text("master_weight"), "/",
                              row.text("optimizer_state"));
  return result;
}

PaperMemoryRow read_memory(CsvTable::Row& row) {
  return {.model = row.text("model"),
          .gemini_bytes = kGigabyte * row.number("gemini_cpu_GB"),
          .moetion_checkpoint_bytes = kGigabyte * row.number("moetion_cpu_X_sparse_checkpoint_GB"),
          .moetion_log_bytes = kGigabyte * row.number("moetion_cpu_Y_logs_GB")};
}

PaperModelInputs read_inputs(CsvTable::Row& row) {
  return {.table = row.text("table"),
          .model = row.text("model_or_config"),
          .step_seconds = row.number("t_iter_s"),
          .window = static_cast<int>(row.number("w_sparse_iterations")),
          .parameters = 1e9 * row.number("params_1e9"),
          .frozen_bytes = row.number("frozen_bytes_per_param"),
          .active_bytes = row.number("active_bytes_per_param"),
          .stages = static_cast<int>(row.number("pp")),
          .rounds = static_cast<int>(row.number("microbatches_count"))};
}

PaperMttfRow read_mttf(CsvTable::Row& row) {
  return {.scope = row.text("scope"),
          .gpus = row.number_or("gpus", 0),
          .metric = row.text("metric"),
          .value = row.number("value"),
          .unit = row.text("unit"),
          .kind = row.text("kind")};
}

absl::Status check_inputs(const PaperTables& tables, const std::string& table,
                          const std::vector<PaperEttrRow>& rows) {
  for (const PaperEttrRow& row : rows) {
    const bool has_inputs = std::any_of(tables.inputs.begin(), tables.inputs.end(),
                                        [&](const PaperModelInputs& inputs) {
                                          return inputs.table == table && inputs.model == row.model;
                                        });
    if (has_inputs) continue;
    return InvalidInput(
        absl::StrCat("derived_inputs.csv: found no ", row.model, ", allowed: all of ", table));
  }
  return absl::OkStatus();
}

}  // namespace

const PaperModelInputs& PaperTables::inputs_of(const std::string& table,
                                               const std::string& model) const {
  for (const PaperModelInputs& row : inputs) {
    if (row.table == table && row.model == model) return row;
  }
  CHECK(false) << table << ", " << model;
  return inputs.front();
}

absl::StatusOr<PaperTables> parse_paper_tables(const PaperTexts& texts) {
  PaperTables tables;
  ASSIGN_OR_RETURN(tables.table3,
                   read_rows<PaperEttrRow>(texts.table3, "table3_ettr.csv", read_table3));
  ASSIGN_OR_RETURN(tables.table7,
                   read_rows<PaperEttrRow>(texts.table7, "table7_low_precision.csv", read_table7));
  ASSIGN_OR_RETURN(tables.table6,
                   read_rows<PaperMemoryRow>(texts.table6, "table6_memory.csv", read_memory));
  ASSIGN_OR_RETURN(tables.inputs, read_rows<PaperModelInputs>(texts.derived_inputs,
                                                              "derived_inputs.csv", read_inputs));
  ASSIGN_OR_RETURN(tables.mttf,
                   read_rows<PaperMttfRow>(texts.reported_mttf, "reported-mttf.csv", read_mttf));
  ASSIGN_OR_RETURN(tables.six_hours,
                   parse_instance_trace(texts.six_hours_trace, "bamboo-g4dn-6h-24instants.csv"));
  RETURN_IF_ERROR(check_inputs(tables, "Table 3", tables.table3));
  RETURN_IF_ERROR(check_inputs(tables, "Table 7", tables.table7));
  return tables;
}

}  // namespace evermoe
