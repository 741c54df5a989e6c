// The types that a job computes and keeps its state in.
#pragma once

#include <cstdint>

#include "checkpoint/format/element_type.h"

namespace evermoe {

// Of compute weights, activations and their products. kFp8: see docs/architecture.md "Precision".
enum class Precision { kFp32, kBf16, kFp16, kFp64, kFp8 };
// Of master weights. kAuto: FP32, and FP64 with Precision::kFp64.
enum class MasterPrecision { kAuto, kFp32, kBf16, kFp16, kFp8 };
// Of the first and the second moments.
enum class MomentPrecision { kAuto, kFp32, kBf16, kFp16, kFp8AndFp16, kFp8 };

// What one choice of the three comes to.
struct TrainTypes {
  ElementType compute = ElementType::kFp32;      // of compute weights, as they are kept and sent
  ElementType activations = ElementType::kFp32;  // and of their gradients
  ElementType sums = ElementType::kFp32;         // of gradients of weights; of losses
  PartTypes state = same_types(ElementType::kFp32);

  // In FP32 and FP64, and wherever the types are the same, the master is the shard of the compute
  // weights.
  bool is_master_compute() const { return type_of(state, StatePart::kMaster) == compute; }
  // Of so many parameters, whole blocks of FP8.
  int64_t compute_bytes(int64_t elements) const { return stored_bytes(compute, elements); }
  int64_t full_bytes(int64_t elements) const { return state_bytes(state, elements); }
  int64_t sum_bytes(int64_t elements) const { return stored_bytes(sums, elements); }
  friend bool operator==(const TrainTypes&, const TrainTypes&) = default;
};

TrainTypes train_types(Precision precision, MasterPrecision master = MasterPrecision::kAuto,
                       MomentPrecision moments = MomentPrecision::kAuto);

// Whether a run may have both. Masters are FP32 or of the compute type; with FP8 of any type. With
// FP64 all state is FP64.
bool goes_with(MasterPrecision master, Precision precision);
bool goes_with(MomentPrecision moments, Precision precision);

// Bytes of an element of activations, and of compute weights but for FP8 (TrainTypes).
constexpr int64_t compute_bytes(Precision precision) {
  switch (precision) {
    case Precision::kFp64: return 8;
    case Precision::kFp32: return 4;
    default: return 2;
  }
}

}  // namespace evermoe
