// Operators: the units in which model state is owned, captured, moved and restored.
//
// An operator is one expert, one gate, or one non-expert block of a layer (embedding, attention and
// norms with any dense or shared feed-forward, head). Its parameters lie in one *flat layout* that
// depends on the model alone, never on the topology: parameters with weight decay first, then those
// without, each beginning at a multiple of kFlatAlignment elements, gaps and tail zero for ever.
// Master weights, moments, gradients and compute weights all use the same layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evermoe {

// 64 elements: at least 64 bytes in any type, which keeps matrix kernels and the vector bodies of
// elementwise kernels bit-stable wherever a shard is cut.
inline constexpr int64_t kFlatAlignment = 64;

enum class OperatorKind : uint8_t { kEmbedding, kBlock, kGate, kExpert, kHead };

const char* to_string(OperatorKind kind);

struct ParameterSpec {
  std::string name;            // "attention.qkv.weight", unique inside the operator
  std::vector<int64_t> shape;  // row-major
  bool decayed = true;         // whether AdamW's weight decay applies
  double init_std = 0;         // normal with this deviation; 0 means the constant below
  double init_constant = 0;
  int64_t offset = 0;  // first element in the flat layout, set by OperatorSpec::layout()

  int64_t numel() const;
};

struct OperatorSpec {
  std::string name;  // "embedding", "layer.3.block", "layer.3.gate", "layer.3.expert.17", "head"
  OperatorKind kind = OperatorKind::kBlock;
  int layer = -1;   // -1 for embedding and head
  int expert = -1;  // -1 unless an expert
  std::vector<ParameterSpec> parameters;
  int64_t flat_size = 0;     // elements, a multiple of kFlatAlignment
  int64_t decayed_size = 0;  // elements of the leading part that weight decay applies to

  // Sorts decayed parameters first and assigns offsets and sizes.
  void layout();
  // Elements that are parameters, without gaps.
  int64_t parameter_count() const;
};

// A half-open range of a flat layout, in elements.
struct FlatRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

// The part of an operator's optimizer state that owner `index` of `owner_count` holds (ZeRO-1):
// contiguous, aligned, together the whole, sizes differing by at most kFlatAlignment.
FlatRange shard_range(int64_t flat_size, int owner_count, int index);

}  // namespace evermoe
