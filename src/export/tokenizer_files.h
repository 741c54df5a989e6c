// A job's tokenizer as the files that transformers' AutoTokenizer loads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model_shape.h"

namespace evermoe {

struct ExportFile {
  std::string name;
  std::string content;
};

struct TokenizerFiles {
  std::vector<ExportFile>
      files;  // tokenizer.json and its neighbours; none where `why_none` says why
  std::string why_none;
};

// `tokenizer` is "bytes" or the path of a SentencePiece model. AutoTokenizer then makes the tokens
// that the job was trained on, of any text: line by line, and without special tokens (a text that
// reads
// "</s>" is text). A model of which that cannot be written has no files.
// InvalidInput where the model is missing or has more tokens than the shape's vocabulary; Corrupt
// where it is none.
absl::StatusOr<TokenizerFiles> tokenizer_files(const std::string& tokenizer,
                                               const ModelShape& shape);

}  // namespace evermoe
