#include "comm/ucx/ucx_bytes.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace evermoe {

UcxBytes UcxBytes::to_send(std::span<const std::byte> source, const UcxMessageEnd& end) {
  UcxBytes bytes(source.size(), end);
  bytes.source_ = source.data();
  return bytes;
}

UcxBytes UcxBytes::to_send_copy(std::span<const std::byte> source, const UcxMessageEnd& end) {
  UcxBytes bytes(source.size(), end);
  bytes.own_memory_.reset(new std::byte[source.size()]);
  std::copy(source.begin(), source.end(), bytes.own_memory_.get());
  bytes.source_ = bytes.own_memory_.get();
  return bytes;
}

UcxBytes UcxBytes::to_receive(std::span<std::byte> target) {
  UcxBytes bytes(target.size(), {});
  bytes.target_ = target.data();
  return bytes;
}

UcxBytes UcxBytes::to_receive(size_t size) {
  UcxBytes bytes(size, {});
  bytes.own_memory_.reset(new std::byte[size]);
  bytes.target_ = bytes.own_memory_.get();
  return bytes;
}

UcxBytes UcxBytes::to_throw_away(size_t size) { return UcxBytes(size, {}); }

void UcxBytes::let_go() {
  if (source_ != nullptr) end_.is_withdrawn = 1;
  source_ = nullptr;
  target_ = nullptr;
}

size_t UcxBytes::fetch(size_t offset, std::byte* to, size_t size_max) const {
  const size_t size = std::min(size_max, whole_size() - offset);
  const size_t before_end = offset < size_ ? std::min(size, size_ - offset) : 0;
  if (before_end > 0 && source_ != nullptr) std::memcpy(to, source_ + offset, before_end);
  if (before_end > 0 && source_ == nullptr) std::memset(to, 0, before_end);
  const auto* const end = reinterpret_cast<const std::byte*>(&end_);
  if (before_end < size)
    std::memcpy(to + before_end, end + (offset + before_end - size_), size - before_end);
  return size;
}

void UcxBytes::deliver(size_t offset, const std::byte* from, size_t size) {
  CHECK(offset + size <= whole_size()) << offset << " + " << size << " of " << whole_size();
  delivered_ += size;
  const size_t before_end = offset < size_ ? std::min(size, size_ - offset) : 0;
  if (before_end > 0 && target_ != nullptr) std::memcpy(target_ + offset, from, before_end);
  auto* const end = reinterpret_cast<std::byte*>(&end_);
  if (before_end < size)
    std::memcpy(end + (offset + before_end - size_), from + before_end, size - before_end);
}

ucp_datatype_t UcxBytes::datatype() {
  // One for the process: UCX may look at it as long as there is a worker.
  static const ucp_datatype_t type = [] {
    ucp_generic_dt_ops_t calls{};
    calls.start_pack = [](void*, const void* bytes, size_t) { return const_cast<void*>(bytes); };
    calls.start_unpack = [](void*, void* bytes, size_t) { return bytes; };
    calls.packed_size = [](void* bytes) { return static_cast<UcxBytes*>(bytes)->whole_size(); };
    calls.pack = [](void* bytes, size_t offset, void* to, size_t size_max) {
      return static_cast<UcxBytes*>(bytes)->fetch(offset, static_cast<std::byte*>(to), size_max);
    };
    calls.unpack = [](void* bytes, size_t offset, const void* from, size_t size) {
      static_cast<UcxBytes*>(bytes)->deliver(offset, static_cast<const std::byte*>(from), size);
      return UCS_OK;
    };
    calls.finish = [](void*) {};
    ucp_datatype_t created;
    const auto status = ucp_dt_create_generic(&calls, nullptr, &created);
    CHECK(status == UCS_OK) << ucs_status_string(status);
    return created;
  }();
  return type;
}

}  // namespace evermoe
