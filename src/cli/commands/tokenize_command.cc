// evermoe tokenize: makes a token file of a text, and a vocabulary where asked to.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/commands/commands.h"
#include "data/token_source.h"
#include "data/tokenizer.h"
#include "env/files.h"

namespace evermoe {
namespace {

struct TokenizeOptions {
  std::string text;
  std::string out;
  std::string tokenizer = "bytes";
  int64_t train_vocabulary = 0;
  std::string model;
};

// Files that the user names and that are not as they should be are the user's mistake.
absl::Status as_input_error(const absl::Status& status) {
  if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
  return InvalidInput(std::string(status.message()));
}

absl::Status check_options(const TokenizeOptions& options) {
  if (!options.out.ends_with(".tokens")) {
    return InvalidInput(
        absl::StrCat("--out: found \"", options.out, "\", allowed: a name that ends with .tokens"));
  }
  if (!real_files().exists(options.text) || real_files().is_directory(options.text)) {
    return InvalidInput(
        absl::StrCat("TEXT: found \"", options.text, "\", allowed: an existing text file"));
  }
  if ((options.train_vocabulary > 0) == options.model.empty()) {
    return InvalidInput("--train-vocabulary and --model: found one, allowed: both or neither");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> run_tokenize(const TokenizeOptions& options) {
  RETURN_IF_ERROR(check_options(options));
  std::string tokenizer = options.tokenizer;
  if (options.train_vocabulary > 0) {
    RETURN_IF_ERROR(train_sentencepiece(options.text, options.train_vocabulary, options.model));
    std::cout << options.model << ": vocabulary of " << options.train_vocabulary << "\n";
    tokenizer = options.model;
  }
  const absl::StatusOr<int64_t> count = tokenize_file(options.text, tokenizer, options.out);
  if (!count.ok()) return as_input_error(count.status());
  ASSIGN_OR_RETURN(const std::unique_ptr<TokenFile> file, TokenFile::open(options.out));
  std::cout << options.out << ": " << *count << " tokens, vocabulary of " << file->vocabulary()
            << "\n";
  return 0;
}

}  // namespace

void add_tokenize_command(CLI::App& app, CommandTable& commands) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand(
      "tokenize", "Turn a text into a token file, which jobs read without tokenizing it again.");
  command->add_option("TEXT", options->text, "the text")->type_name("FILE")->required();
  command->add_option("--out", options->out, "token file to write")
      ->type_name("FILE.tokens")
      ->required();
  CLI::Option* tokenizer =
      command->add_option("--tokenizer", options->tokenizer, "bytes, or a SentencePiece model")
          ->type_name("bytes|FILE.model")
          ->capture_default_str();
  command
      ->add_option("--train-vocabulary", options->train_vocabulary,
                   "train a SentencePiece vocabulary of this size on the text first")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24))
      ->excludes(tokenizer);
  command->add_option("--model", options->model, "where to write the trained model")
      ->type_name("FILE.model");
  commands[command] = [options] { return run_tokenize(*options); };
}

}  // namespace evermoe
