// evermoe export: a checkpoint's model for Hugging Face transformers.
#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "cli/checkpoint_argument.h"
#include "cli/commands/commands.h"
#include "cli/reports/expert_ages.h"
#include "cli/reports/number_text.h"
#include "data/token_source.h"
#include "export/export_checkpoint.h"
#include "export/tokenizer_files.h"

namespace evermoe {
namespace {

struct ExportArguments {
  std::string checkpoint;
  std::string out;
  std::string format = "auto";
  std::string type = "fp32";
  std::string tokenizer = "auto";
  bool mixed_ages = false;
  uint64_t file_bytes_max = static_cast<uint64_t>(ExportOptions().file_bytes_max);
};

std::string format_names() {
  std::string names = "auto";
  for (const ExportFormat format : kExportFormats) absl::StrAppend(&names, ", ", to_string(format));
  return names;
}

absl::StatusOr<ExportFormat> parse_format(const std::string& name, const ModelShape& shape) {
  if (name == "auto") return choose_format(shape);
  const std::optional<ExportFormat> format = export_format_from_string(name);
  if (format) return *format;
  return InvalidInput(absl::StrCat("--format: found \"", name, "\", allowed: ", format_names()));
}

absl::StatusOr<ElementType> parse_type(const std::string& name) {
  const std::optional<ElementType> type = element_type_from_string(name);
  if (type == ElementType::kFp32 || type == ElementType::kBf16) return *type;
  return InvalidInput(absl::StrCat("--type: found \"", name, "\", allowed: fp32, bf16"));
}

// The tokenizer of the job's text, unless another is given. Which one made a token file is not
// known.
absl::StatusOr<TokenizerFiles> find_tokenizer(const std::string& wanted, const JobConfig& config) {
  if (wanted == "none") return TokenizerFiles();
  if (wanted != "auto") return tokenizer_files(wanted, config.model);
  if (is_token_file(config.data.path)) {
    TokenizerFiles none;
    none.why_none = "the job was trained on a token file; --tokenizer names the model that made it";
    return none;
  }
  absl::StatusOr<TokenizerFiles> files = tokenizer_files(config.data.tokenizer, config.model);
  if (!absl::IsInvalidArgument(files.status())) return files;
  return InvalidInput(absl::StrCat(files.status().message(), "; --tokenizer names it, or none"));
}

// Experts of different steps are a model that training has never had.
absl::Status check_ages(const CheckpointReader& checkpoint, bool allows_mixed_ages) {
  if (!is_mixed(checkpoint.manifest())) return absl::OkStatus();
  const std::string ages =
      absl::StrCat(checkpoint.path(),
                   ": experts of different ages: ", to_text(expert_ages(checkpoint.manifest())));
  if (!allows_mixed_ages) {
    return InvalidInput(absl::StrCat(ages, "; allowed: a checkpoint of one step, or --mixed-ages"));
  }
  std::cerr << "evermoe: warning: " << ages << "\n";
  return absl::OkStatus();
}

absl::StatusOr<int> run_export(const ExportArguments& arguments) {
  constexpr auto kBytesMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  ASSIGN_OR_RETURN(const ElementType type, parse_type(arguments.type));
  if (arguments.file_bytes_max < 1 || arguments.file_bytes_max > kBytesMax) {
    return InvalidInput("--max-file-size: found a size out of range, allowed: 1 byte to 8 EiB");
  }
  ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(real_files(), arguments.checkpoint));
  RETURN_IF_ERROR(check_ages(*checkpoint, arguments.mixed_ages));
  ASSIGN_OR_RETURN(const JobConfig config, stored_configuration(*checkpoint));
  ASSIGN_OR_RETURN(const ExportFormat format, parse_format(arguments.format, config.model));
  ASSIGN_OR_RETURN(const ExportPlan plan, plan_export(config.model, format, type));
  ASSIGN_OR_RETURN(TokenizerFiles tokenizer, find_tokenizer(arguments.tokenizer, config));
  ASSIGN_OR_RETURN(
      const ExportSummary summary,
      export_checkpoint(real_files(), *checkpoint, plan, arguments.out,
                        {.file_bytes_max = static_cast<int64_t>(arguments.file_bytes_max),
                         .files = std::move(tokenizer.files)}));
  std::cout << absl::StrFormat(
      "%s: %s of step %d, %s parameters in %s, %d weight file%s, %s\n", arguments.out,
      architecture_name(format), checkpoint->position().step.value, with_commas(summary.parameters),
      to_string(type), summary.weight_files.size(), summary.weight_files.size() == 1 ? "" : "s",
      shown_bytes(summary.bytes));
  if (!tokenizer.why_none.empty())
    std::cout << "without a tokenizer: " << tokenizer.why_none << "\n";
  return 0;
}

}  // namespace

void add_export_command(CLI::App& app, CommandTable& commands) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand(
      "export", "Write a checkpoint's model as a folder that Hugging Face transformers loads.");
  command->add_option("CHECKPOINT", arguments->checkpoint, kCheckpointHelp)
      ->type_name("DIR")
      ->required();
  command->add_option("--out", arguments->out, "folder to create")->type_name("DIR")->required();
  command
      ->add_option("--format", arguments->format,
                   "model format: " + format_names() + "; auto: the first that fits")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_option("--type", arguments->type, "type of the weights: fp32 or bf16")
      ->type_name("TYPE")
      ->capture_default_str();
  command
      ->add_option(
          "--tokenizer", arguments->tokenizer,
          "tokenizer to write: bytes, a SentencePiece .model file, none, or auto: the job's own")
      ->type_name("KIND")
      ->capture_default_str();
  command->add_flag("--mixed-ages", arguments->mixed_ages,
                    "write a partial checkpoint, too, whose experts are of different steps");
  command
      ->add_option("--max-file-size", arguments->file_bytes_max,
                   "largest size of one file of weights (default: 5GB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  commands[command] = [arguments] { return run_export(*arguments); };
}

}  // namespace evermoe
