#include "train/state/stored_elements.h"

#include "tensor/host_bytes.h"

namespace evermoe {

at::ScalarType storage_type(ElementType type) {
  switch (type) {
    case ElementType::kFp32: return at::kFloat;
    case ElementType::kFp64: return at::kDouble;
    case ElementType::kBf16: return at::kBFloat16;
    case ElementType::kFp16: return at::kHalf;
    case ElementType::kFp8: return at::kByte;
  }
  CHECK(false) << "element type";
  __builtin_unreachable();
}

ElementType element_type(at::ScalarType storage) {
  switch (storage) {
    case at::kFloat: return ElementType::kFp32;
    case at::kDouble: return ElementType::kFp64;
    case at::kBFloat16: return ElementType::kBf16;
    case at::kHalf: return ElementType::kFp16;
    case at::kByte: return ElementType::kFp8;
    default: CHECK(false) << "element type " << static_cast<int>(storage);
  }
  __builtin_unreachable();
}

bool is_narrow(at::ScalarType storage) { return storage != at::kFloat && storage != at::kDouble; }

bool is_root(StatePart part, at::ScalarType storage) {
  return part == StatePart::kExpAvgSq && is_narrow(storage);
}

int64_t storage_size(at::ScalarType storage, int64_t parameters) {
  return storage == at::kByte ? stored_bytes(ElementType::kFp8, parameters) : parameters;
}

at::Tensor new_storage(ElementType type, int64_t parameters, at::Device device) {
  const at::ScalarType storage = storage_type(type);
  return at::zeros({storage_size(storage, parameters)},
                   at::TensorOptions().device(device).dtype(storage));
}

at::Tensor stored_range(const at::Tensor& storage, FlatRange range) {
  const at::ScalarType type = storage.scalar_type();
  const int64_t size = storage_size(type, range.size());
  // A GPU is kept waiting by thousands of views.
  if (range.begin == 0 && size == storage.numel()) return storage;
  return storage.narrow(0, storage_size(type, range.begin), size);
}

at::Tensor widened(const at::Tensor& storage) {
  const at::ScalarType type = storage.scalar_type();
  if (!is_narrow(type)) return storage;
  if (type != at::kByte) return storage.to(at::kFloat);
  const HostReadable from(storage);
  const at::Tensor values =
      at::empty({storage.numel() / kFp8BlockBytes * kFp8BlockElements}, at::kFloat);
  widen_elements(ElementType::kFp8, from.bytes(), host_values<float>(values));
  return values.to(storage.device());
}

void copy_stored(const at::Tensor& from, at::Tensor into) {
  const at::ScalarType type = into.scalar_type();
  if (type == from.scalar_type() || (type != at::kByte && from.scalar_type() != at::kByte))
    into.copy_(from);  // which rounds once
  else if (type == at::kByte)
    narrow_into(widened(from), into, {});
  else
    into.copy_(widened(from));
}

void narrow_into(const at::Tensor& values, at::Tensor into, const Narrowing& narrowing) {
  const HostReadable from(values.to(at::kFloat).contiguous());
  HostWritable to(into);
  narrow_elements(from.values<float>(), element_type(into.scalar_type()), to.bytes(), narrowing);
  to.commit();
}

}  // namespace evermoe
