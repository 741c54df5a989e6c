#include "data/sentencepiece_model.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

namespace evermoe {
namespace {

using sentencepiece::SentencePieceProcessor;
using sentencepiece::SentencePieceTrainer;

std::string one_line(const sentencepiece::util::Status& status) {
  if (status.ok()) return "";
  std::string text = status.ToString();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

class Model : public SentencePieceModel {
 public:
  std::string load(const std::string& bytes) {
    return one_line(processor_.LoadFromSerializedProto(bytes));
  }

  int64_t vocabulary() const override { return processor_.GetPieceSize(); }

  std::optional<int32_t> token_of(const std::string& piece) const override {
    const int id = processor_.PieceToId(piece);
    if (id == processor_.unk_id()) return std::nullopt;
    return id;
  }

  std::optional<int32_t> end_of_sentence() const override {
    if (processor_.eos_id() < 0) return std::nullopt;
    return processor_.eos_id();
  }

  std::vector<int32_t> encode(const std::string& text, std::string& error) const override {
    std::vector<int> ids;
    error = one_line(processor_.Encode(text, &ids));
    return ids;
  }

  std::string decode(const std::vector<int32_t>& tokens, std::string& error) const override {
    std::string text;
    error = one_line(processor_.Decode(tokens, &text));
    return text;
  }

 private:
  SentencePieceProcessor processor_;
};

class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::function<std::optional<std::string>()>& next) : next_(next) { Next(); }
  bool done() const override { return !line_; }
  void Next() override { line_ = next_(); }
  const std::string& value() const override { return *line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::function<std::optional<std::string>()>& next_;
  std::optional<std::string> line_;
};

}  // namespace

std::unique_ptr<SentencePieceModel> SentencePieceModel::parse(const std::string& bytes,
                                                              std::string& error) {
  auto model = std::make_unique<Model>();
  error = model->load(bytes);
  if (!error.empty()) return nullptr;
  return model;
}

std::string train_sentencepiece_model(const std::function<std::optional<std::string>()>& next_line,
                                      int64_t vocabulary, std::string& error) {
  Lines lines(next_line);
  std::string bytes;
  // One thread: the order in which counts are added decides ties. No normalisation and no dummy
  // prefix: decoding gives the text back.
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "unigram"},
      {"vocab_size", std::to_string(vocabulary)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"max_sentence_length", "1000000"},
      {"num_threads", "1"},
      {"minloglevel", "2"},
  };
  error = one_line(SentencePieceTrainer::Train(options, &lines, &bytes));
  return bytes;
}

}  // namespace evermoe
