#include "config/precision.h"

#include "base/check.h"

namespace evermoe {
namespace {

ElementType element_type(Precision precision) {
  switch (precision) {
    case Precision::kFp32: return ElementType::kFp32;
    case Precision::kBf16: return ElementType::kBf16;
    case Precision::kFp16: return ElementType::kFp16;
    case Precision::kFp64: return ElementType::kFp64;
    case Precision::kFp8: return ElementType::kFp8;
  }
  CHECK(false) << "precision";
  return ElementType::kFp32;
}

ElementType element_type(MasterPrecision master, ElementType wide) {
  switch (master) {
    case MasterPrecision::kAuto: return wide;
    case MasterPrecision::kFp32: return ElementType::kFp32;
    case MasterPrecision::kBf16: return ElementType::kBf16;
    case MasterPrecision::kFp16: return ElementType::kFp16;
    case MasterPrecision::kFp8: return ElementType::kFp8;
  }
  CHECK(false) << "master precision";
  return wide;
}

struct Moments {
  ElementType first, second;
};

Moments element_types(MomentPrecision moments, ElementType wide) {
  switch (moments) {
    case MomentPrecision::kAuto: return {wide, wide};
    case MomentPrecision::kFp32: return {ElementType::kFp32, ElementType::kFp32};
    case MomentPrecision::kBf16: return {ElementType::kBf16, ElementType::kBf16};
    case MomentPrecision::kFp16: return {ElementType::kFp16, ElementType::kFp16};
    case MomentPrecision::kFp8AndFp16: return {ElementType::kFp8, ElementType::kFp16};
    case MomentPrecision::kFp8: return {ElementType::kFp8, ElementType::kFp8};
  }
  CHECK(false) << "moment precision";
  return {wide, wide};
}

}  // namespace

TrainTypes train_types(Precision precision, MasterPrecision master, MomentPrecision moments) {
  const ElementType wide = precision == Precision::kFp64 ? ElementType::kFp64 : ElementType::kFp32;
  const Moments types = element_types(moments, wide);
  return {
      .compute = element_type(precision),
      .activations = precision == Precision::kFp8 ? ElementType::kBf16 : element_type(precision),
      .sums = wide,
      .state = {element_type(master, wide), types.first, types.second}};
}

bool goes_with(MasterPrecision master, Precision precision) {
  if (master == MasterPrecision::kAuto) return true;
  switch (precision) {
    case Precision::kFp64: return false;
    case Precision::kFp32: return master == MasterPrecision::kFp32;
    case Precision::kBf16:
      return master == MasterPrecision::kFp32 || master == MasterPrecision::kBf16;
    case Precision::kFp16:
      return master == MasterPrecision::kFp32 || master == MasterPrecision::kFp16;
    case Precision::kFp8: return true;
  }
  return false;
}

bool goes_with(MomentPrecision moments, Precision precision) {
  return moments == MomentPrecision::kAuto || precision != Precision::kFp64;
}

}  // namespace evermoe
