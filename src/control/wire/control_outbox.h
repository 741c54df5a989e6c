// Inside the streams only: hands envelopes to a gRPC reactor one after the other, and says when the
// reactor may be finished. Sees gRPC.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include <grpcpp/support/byte_buffer.h>

#include "base/error.h"
#include "base/mutex.h"
#include "control/wire/control_codec.h"
#include "control/wire/control_stream.h"

namespace evermoe {

inline grpc::ByteBuffer to_buffer(const Envelope& envelope) {
  const grpc::Slice slice(encode(envelope));
  return grpc::ByteBuffer(&slice, 1);
}

inline absl::StatusOr<Envelope> from_buffer(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return Corrupt("an empty message");
  return decode_envelope(std::string(reinterpret_cast<const char*>(slice.begin()), slice.size()));
}

// A reactor's operations are started outside the lock: its reactions may come on other threads at
// once. `writing_` keeps them apart: one write is under way at a time, and the end comes only
// between two.
class Outbox {
 public:
  enum class Result { kKept, kWrite, kFull, kClosed };
  // kWrite: the caller starts a write of next().
  Result add(grpc::ByteBuffer envelope) {
    const MutexLock lock(mutex_);
    if (closing_) return Result::kClosed;
    if (waiting_.size() >= kOutboxMax) return Result::kFull;
    waiting_.push_back(std::move(envelope));
    if (writing_) return Result::kKept;
    writing_ = true;
    return Result::kWrite;
  }
  // Stays where it is until on_written(). Only for who has been told to write.
  const grpc::ByteBuffer* next() {
    const MutexLock lock(mutex_);
    return &waiting_.front();
  }

  enum class Then { kNothing, kWrite, kEnd };
  // What the reactor does next; kEnd is said once.
  Then on_written(bool ok) {
    const MutexLock lock(mutex_);
    waiting_.pop_front();
    if (!ok) closing_ = true;
    if (!ok || dropping_) waiting_.clear();
    if (!waiting_.empty()) return Then::kWrite;
    writing_ = false;
    return end_if_closing();
  }
  // Nothing more is added; what waits is written first, or dropped.
  Then close(bool drop) {
    const MutexLock lock(mutex_);
    closing_ = true;
    dropping_ = dropping_ || drop;
    return writing_ ? Then::kNothing : end_if_closing();
  }

 private:
  Then end_if_closing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!closing_ || ended_) return Then::kNothing;
    ended_ = true;
    return Then::kEnd;
  }

  Mutex mutex_;
  std::deque<grpc::ByteBuffer> waiting_
      ABSL_GUARDED_BY(mutex_);  // references to elements stay valid while others are added
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool dropping_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace evermoe
