// One member's part of a reduction: the others' contributions come chunk by chunk and are added in
// index order, so that adding overlaps moving and what has come is still in the cache.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "comm/pending.h"
#include "comm/reduce.h"

namespace evermoe {

// Contributions travel in messages of so many bytes.
inline constexpr size_t kChunkBytes = 256 << 10;

template <typename T>
class PartReduction {
 public:
  static constexpr size_t kChunk = kChunkBytes / sizeof(T);
  using Receive = std::function<PendingMessage(int from, size_t chunk, std::span<std::byte> into)>;

  // `own` is what member `index` of `members` brings itself, and `into` where the result goes,
  // which may be the same. At most `window` chunks of each other member are received at a time.
  PartReduction(Receive receive, int members, int index, std::span<const T> own, std::span<T> into,
                ReduceOp op, size_t window)
      : receive_(std::move(receive)),
        members_(static_cast<size_t>(members)),
        index_(static_cast<size_t>(index)),
        own_(own),
        into_(into),
        op_(op),
        chunk_(std::min(kChunk, own.size())),
        buffers_(chunk_ == 0 ? 0 : std::min(window, (own.size() + chunk_ - 1) / chunk_)),
        scratch_(new T[buffers_ * members_ * chunk_]),
        receives_(buffers_) {
    for (size_t buffer = 0; buffer < buffers_; ++buffer) start_receives(buffer * chunk_, buffer);
  }

  bool is_complete() const { return added_ == own_.size(); }
  // Elements of the part that are complete.
  size_t added() const { return added_; }

  // REQUIRES of both: !is_complete().
  bool has_next_come() { return are_done(receives_[buffer_]); }
  // Waits for the next chunk, adds it and lets another one come.
  absl::Status add_next() {
    RETURN_IF_ERROR(wait_all(receives_[buffer_]));
    receives_[buffer_].clear();
    std::vector<const T*> inputs(members_);
    for (size_t i = 0; i < members_; ++i) inputs[i] = place(buffer_, i);
    inputs[index_] = own_.data() + added_;
    const size_t count = std::min(chunk_, own_.size() - added_);
    reduce_in_order<T>(inputs, count, op_, into_.data() + added_);
    start_receives(added_ + buffers_ * chunk_, buffer_);
    added_ += count;
    buffer_ = (buffer_ + 1) % buffers_;
    return absl::OkStatus();
  }

 private:
  T* place(size_t buffer, size_t member) {
    return &scratch_[(buffer * members_ + member) * chunk_];
  }
  void start_receives(size_t first, size_t buffer) {
    if (first >= own_.size()) return;
    const size_t count = std::min(chunk_, own_.size() - first);
    for (size_t i = 0; i < members_; ++i) {
      if (i == index_) continue;
      const std::span<T> into(place(buffer, i), count);
      receives_[buffer].push_back(
          receive_(static_cast<int>(i), first / chunk_, std::as_writable_bytes(into)));
    }
  }

  Receive receive_;
  size_t members_, index_;
  std::span<const T> own_;
  std::span<T> into_;
  ReduceOp op_;
  size_t chunk_, buffers_;
  std::unique_ptr<T[]> scratch_;
  std::vector<std::vector<PendingMessage>> receives_;  // by buffer; before scratch_ goes
  size_t added_ = 0;
  size_t buffer_ = 0;  // of the next chunk
};

}  // namespace evermoe
