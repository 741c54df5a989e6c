// The two kinds of tokenizers behind Tokenizer::open().
#pragma once

#include "data/tokenizer.h"

namespace evermoe {

std::unique_ptr<Tokenizer> byte_tokenizer();
absl::StatusOr<std::unique_ptr<Tokenizer>> open_sentencepiece(const std::string& model_path);

}  // namespace evermoe
