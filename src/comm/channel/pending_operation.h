// A send or receive in flight, as the transports of this folder see it, and queues of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/error.h"
#include "base/mutex.h"
#include "comm/transport/frame.h"
#include "comm/transport/transport.h"

namespace evermoe {

// Owned by the caller of the transport until wait(). While it is unfinished the transport keeps
// plain pointers to it; all fields are guarded by the transport's mutex.
struct PendingOperation : TransportOperation {
  enum class Kind { kSend, kReceive };

  PendingOperation(Kind k, Rank p, Tag t) : kind(k), peer(p), tag(t) {}
  ~PendingOperation() override { CHECK(finished) << "an operation was not given back by wait()"; }

  void finish(absl::Status result) {
    finished = true;
    if (counter != nullptr) --*std::exchange(counter, nullptr);
    if (sends != nullptr) --*std::exchange(sends, nullptr);
    status = std::move(result);
    if (sleeper != nullptr) sleeper->notify_one();
  }

  // Counts the operation in `unfinished` until it finishes.
  void count_in(int& unfinished) {
    counter = &unfinished;
    ++unfinished;
  }

  // The same for a send that others look at without the transport's mutex.
  void count_in(std::atomic<int>& sends_under_way) {
    sends = &sends_under_way;
    ++sends_under_way;
  }

  const Kind kind;
  const Rank peer;
  const Tag tag;
  std::span<const std::byte> source;  // of a send
  std::span<std::byte> target;        // of a receive
  FrameBytes header{};                // of a send over a stream
  size_t written = 0;                 // of header and source together
  bool finished = false;
  absl::Status status;
  CondVar* sleeper = nullptr;  // of the thread in wait(), if it sleeps
  int* counter = nullptr;      // that counts it until it finishes
  std::atomic<int>* sends = nullptr;
  PendingOperation* next = nullptr;  // in the Fifo that holds it
};

inline std::string describe(const Tag& tag) {
  return absl::StrCat("view ", tag.view.value, ", group ", tag.group, ", purpose ", tag.purpose);
}

// What wait() returns for an operation that did not finish in time.
inline absl::Status timeout_of(const PendingOperation& operation, absl::Duration timeout) {
  const char* const what = operation.kind == PendingOperation::Kind::kSend
                               ? "nothing taken by rank "
                               : "nothing from rank ";
  return Timeout(operation.peer,
                 absl::StrCat(what, operation.peer.value, " within ", absl::FormatDuration(timeout),
                              " (", describe(operation.tag), ")"));
}

// An intrusive queue: no allocation per element. T has a field `next`; each is in one queue at
// most.
template <typename T>
class Fifo {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }

  void push(T* element) {
    element->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = element;
    tail_ = element;
  }

  void push_front(T* element) {
    element->next = head_;
    if (head_ == nullptr) tail_ = element;
    head_ = element;
  }

  T* pop() {
    T* const element = head_;
    head_ = element->next;
    return element;
  }

  // True if it was there.
  bool remove(T* element) {
    T* before = nullptr;
    for (T* at = head_; at != nullptr; before = at, at = at->next) {
      if (at != element) continue;
      (before == nullptr ? head_ : before->next) = at->next;
      if (tail_ == at) tail_ = before;
      return true;
    }
    return false;
  }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

}  // namespace evermoe
