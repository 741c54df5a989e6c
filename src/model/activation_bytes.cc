#include "model/activation_bytes.h"

#include <algorithm>

namespace evermoe {
namespace {

// Of one chunk's logits in the type of the loss. Products of fewer rows than kLogitsRowsMin are
// slow.
constexpr int64_t kLogitsBytesMax = 32 << 20;
constexpr int64_t kLogitsRowsMin = 256, kLogitsRowsMultiple = 64;
constexpr int64_t kIndexBytes = 8;
// Index lists that a dispatch keeps of every choice.
constexpr int64_t kIndexLists = 4;

class Counter {
 public:
  Counter(const ModelShape& shape, const ActivationShape& activations)
      : shape_(shape),
        tokens_(activations.micro_batch_size * shape.sequence_length),
        narrow_(activations.element_bytes),
        wide_(std::max<int64_t>(4, activations.element_bytes)),
        keeps_inside_experts_(activations.kept != KeptActivations::kOutsideExperts) {}

  int64_t hidden_rows() const { return tokens_ * shape_.hidden * narrow_; }

  int64_t kept_by_layer(int64_t layer) const {
    const int64_t attended = is_layer_norm() ? hidden_rows() : 0;
    return kept_input() + 2 * norm() + attention() + attended + feed_forward(layer);
  }
  // A layer's input is kept by the norm of the layer if that is a LayerNorm.
  int64_t kept_input() const { return is_layer_norm() ? hidden_rows() : 0; }

  // Of the largest moments of the backward pass inside a layer: at the experts' outputs, whose
  // gradients and their products with the outputs are in the wide type, or those of queries, keys
  // and values.
  int64_t working_in_layer(int64_t layer) const {
    const int64_t experts = shape_.is_moe_layer(layer)
                                ? choices() * shape_.hidden * 2 * wide_ + hidden_rows()
                                : inside(tokens_, shape_.dense_hidden);
    const int64_t queries = tokens_ * shape_.heads * shape_.head_dim;
    const int64_t all = tokens_ * (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim;
    return std::max(experts, all * narrow_ + queries * (wide_ + cast()));
  }

  int64_t working_in_head() const {
    const int64_t rows = std::min(tokens_, logits_rows(shape_.vocabulary, wide_));
    const int64_t log_probabilities = rows * shape_.vocabulary * wide_;
    const int64_t cast = narrow_ < wide_ ? rows * shape_.vocabulary * narrow_ : 0;
    return norm() + hidden_rows() + 3 * log_probabilities + cast;
  }

  int64_t kept_by_head() const { return norm() + hidden_rows(); }

  // Gradient and input of every product.
  int64_t deferred_by_layer(int64_t layer) const {
    const int64_t queries = shape_.heads * shape_.head_dim,
                  all = queries + 2 * shape_.kv_heads * shape_.head_dim;
    int64_t bytes = tokens_ * (all + shape_.hidden + shape_.hidden + queries) * narrow_;
    if (!shape_.is_moe_layer(layer))
      return bytes + tokens_ * products_of(shape_.dense_hidden) * narrow_;
    bytes += tokens_ * (shape_.experts + shape_.hidden) * wide_;
    bytes += rows() * products_of(shape_.expert_hidden) * narrow_;
    return shape_.shared_hidden > 0 ? bytes + tokens_ * products_of(shape_.shared_hidden) * narrow_
                                    : bytes;
  }
  int64_t deferred_by_head() const {
    return tokens_ * (shape_.vocabulary + shape_.hidden) * narrow_;
  }

 private:
  // Of an element that there is in both types.
  int64_t cast() const { return narrow_ < wide_ ? wide_ + narrow_ : 0; }
  bool is_layer_norm() const { return shape_.norm == NormKind::kLayerNorm; }
  int64_t choices() const { return tokens_ * shape_.top_k; }
  // Of the expert layout; what one lane gets of all lanes' choices. 16-bit rows are padded to 16
  // per expert.
  int64_t rows() const { return choices() + (narrow_ == 2 ? 8 * shape_.experts : 0); }
  int64_t widened(int64_t width) const {
    return shape_.activation == ActivationKind::kSwiGlu ? 2 * width : width;
  }
  int64_t products_of(int64_t width) const {
    return shape_.hidden + widened(width) + width + shape_.hidden;
  }

  int64_t norm() const {
    const int64_t output = hidden_rows();
    if (is_layer_norm()) return output + 2 * tokens_ * wide_;
    return output + tokens_ * (shape_.hidden + 1) * wide_;
  }

  int64_t attention() const {
    const int64_t queries = shape_.heads * shape_.head_dim,
                  keys = shape_.kv_heads * shape_.head_dim;
    const int64_t rotated = shape_.position == PositionKind::kRotary ? queries + keys : 0;
    const int64_t results = shape_.heads == shape_.kv_heads ? queries : 2 * queries;
    return tokens_ * (queries + 2 * keys + rotated + results) * narrow_ +
           tokens_ * shape_.heads * wide_;
  }

  int64_t feed_forward(int64_t layer) const {
    if (!shape_.is_moe_layer(layer)) return inside(tokens_, shape_.dense_hidden);
    return shared() + gate() + routed();
  }
  int64_t inside(int64_t rows, int64_t width) const {
    return rows * (widened(width) + width) * narrow_;
  }

  int64_t shared() const {
    if (shape_.shared_hidden == 0) return 0;
    const int64_t gated = shape_.shared_gate ? hidden_rows() + tokens_ * narrow_ : 0;
    return inside(tokens_, shape_.shared_hidden) + gated;
  }

  int64_t gate() const {
    const int64_t copies = narrow_ < wide_ ? (tokens_ + shape_.experts) * shape_.hidden * wide_ : 0;
    return copies + 2 * tokens_ * shape_.experts * wide_ + choices() * (kIndexBytes + 3 * wide_);
  }

  int64_t routed() const {
    const int64_t inside_experts = keeps_inside_experts_ ? inside(rows(), shape_.expert_hidden) : 0;
    return (rows() + choices()) * shape_.hidden * narrow_ + inside_experts +
           kIndexLists * choices() * kIndexBytes;
  }

  const ModelShape& shape_;
  const int64_t tokens_;
  const int64_t narrow_;  // bytes of an element of the compute type
  const int64_t wide_;    // of at least FP32
  const bool keeps_inside_experts_;
};

}  // namespace

int64_t logits_rows(int64_t vocabulary, int64_t element_bytes) {
  const int64_t rows =
      kLogitsBytesMax / (vocabulary * element_bytes) / kLogitsRowsMultiple * kLogitsRowsMultiple;
  return std::max(kLogitsRowsMin, rows);
}

ActivationBytes activation_bytes(const ModelShape& shape, const ActivationShape& activations) {
  const Counter counter(shape, activations);
  const bool is_twice = activations.kept == KeptActivations::kLayerInputs;
  int64_t of_one = 2 * counter.hidden_rows(), inside_max = 0,
          deferred = 0;  // the stage's input and output
  for (int64_t layer = activations.first_layer; layer < activations.end_layer; ++layer) {
    const int64_t kept = counter.kept_by_layer(layer);
    of_one += is_twice ? counter.hidden_rows() : kept;
    const int64_t again = is_twice ? kept - counter.kept_input() : 0;
    inside_max = std::max(inside_max, counter.working_in_layer(layer) + again);
    deferred += counter.deferred_by_layer(layer);
  }
  ActivationBytes bytes;
  bytes.working = inside_max;
  if (activations.holds_head) {
    of_one += counter.kept_by_head();
    bytes.working = std::max(bytes.working, counter.working_in_head() - counter.kept_by_head());
    deferred += counter.deferred_by_head();
  }
  bytes.kept = of_one * activations.rounds_in_flight;
  bytes.deferred = deferred * activations.micro_batches;
  return bytes;
}

}  // namespace evermoe
