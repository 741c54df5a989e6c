// The bytes of a message in UCX's hands: those of the caller and, behind them, an end of our own.
//
// UCX fetches and delivers them piece by piece, by callbacks (a "generic datatype"), and never has
// an address of the caller's memory. UCX cannot take back a message that is on its way, except by
// cutting the connection: ucp_request_cancel() does nothing for sends, and for a receive nothing
// once its message has begun to come. Here the memory is taken back instead: at once, whatever the
// peer does and however large the message is, and healthy peers stay connected when a view is
// revoked. The rest of a message taken back is sent as zeros, and its end says so.
//
// Over RDMA, which could do without UCX's pieces, bytes pass through them, too.
//
// Not synchronised: UCX calls back inside of calls of its own, which the mutex of the channel
// guards.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace evermoe {

// Follows every message: also what its tag has no room for (little endian).
struct UcxMessageEnd {
  uint32_t view = 0;              // of the tag, whole
  uint32_t purpose : 31 = 0;      // likewise
  uint32_t is_withdrawn : 1 = 0;  // then nobody is to have the message
  uint64_t token = 0;             // of the connection's pass; 0 in the transport's own
};
static_assert(sizeof(UcxMessageEnd) == 16);

class UcxBytes {
 public:
  // To be sent from there; from a copy of it.
  static UcxBytes to_send(std::span<const std::byte> source, const UcxMessageEnd& end);
  static UcxBytes to_send_copy(std::span<const std::byte> source, const UcxMessageEnd& end);
  // To be received there; in memory of their own; to be received and thrown away.
  static UcxBytes to_receive(std::span<std::byte> target);
  static UcxBytes to_receive(size_t size);
  static UcxBytes to_throw_away(size_t size);

  size_t size() const { return size_; }
  // With the end: so many UCX moves.
  size_t whole_size() const { return size_ + sizeof(end_); }
  // Of a message that has been received: whether it had just this size; its bytes, unless they were
  // thrown away; its end.
  bool are_complete() const { return delivered_ == whole_size(); }
  std::span<const std::byte> received() const { return {target_, size_}; }
  const UcxMessageEnd& end() const { return end_; }
  // For another message of this size.
  void begin_again() { delivered_ = 0; }

  // The memory is the caller's again. What has been fetched of a message is not lost by that, so it
  // may arrive; else its receiver goes on waiting.
  void let_go();

  // What UCX is told of the message: the address of this object, one element of this type.
  static ucp_datatype_t datatype();

 private:
  UcxBytes(size_t size, const UcxMessageEnd& end) : size_(size), end_(end) {}
  size_t fetch(size_t offset, std::byte* to, size_t size_max) const;
  void deliver(size_t offset, const std::byte* from, size_t size);

  size_t size_;
  const std::byte* source_ = nullptr;  // of a send; null: zeros are sent
  std::byte* target_ = nullptr;        // of a receive; null: they are thrown away
  UcxMessageEnd end_;
  size_t delivered_ = 0;
  std::unique_ptr<std::byte[]> own_memory_;  // if source or target is that
};

}  // namespace evermoe
