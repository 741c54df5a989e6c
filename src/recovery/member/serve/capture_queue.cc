#include "recovery/member/serve/capture_queue.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace evermoe {

bool CaptureQueue::UnderWay::can_read(const ChunkRange& chunk) const {
  return !capture.waits_for_gradients || chunk.operator_index < 0 ||
         ready.contains(chunk.operator_index);
}

bool CaptureQueue::UnderWay::reads(const std::vector<int32_t>& chunks, int operator_index) const {
  return std::ranges::any_of(chunks, [&](int32_t chunk) {
    return capture.chunks[static_cast<size_t>(chunk)].operator_index == operator_index;
  });
}

void CaptureQueue::begin(Capture capture) {
  CHECK(!capture.chunks.empty()) << "a capture of nothing";
  CHECK(!waits_for_gradients()) << "gradients of two steps";
  UnderWay one{std::move(capture)};
  one.left.resize(one.capture.chunks.size());
  std::iota(one.left.begin(), one.left.end(), 0);
  captures_.push_back(std::move(one));
}

bool CaptureQueue::waits_for_gradients() const {
  return !captures_.empty() && captures_.back().capture.waits_for_gradients;
}

void CaptureQueue::set_ready(int operator_index, WrittenState written) {
  if (waits_for_gradients()) captures_.back().ready.emplace(operator_index, std::move(written));
}

bool CaptureQueue::is_reading(int operator_index) const {
  return std::ranges::any_of(captures_, [&](const UnderWay& one) {
    return one.reads(one.left, operator_index) || one.reads(one.begun, operator_index);
  });
}

std::optional<ChunkHeader> CaptureQueue::next(Rank owner) const {
  for (const UnderWay& one : captures_) {
    const auto chunk = std::ranges::find_if(one.left, [&](int32_t number) {
      return one.can_read(one.capture.chunks[static_cast<size_t>(number)]);
    });
    if (chunk == one.left.end()) continue;
    const ChunkRange& range = one.capture.chunks[static_cast<size_t>(*chunk)];
    return ChunkHeader{.owner = owner,
                       .window = one.capture.time.window,
                       .slot = one.capture.time.slot,
                       .slots = one.capture.slots,
                       .chunk = *chunk,
                       .chunks = static_cast<int32_t>(one.capture.chunks.size()),
                       .operator_index = range.operator_index,
                       .kind = range.kind,
                       .offset = range.offset,
                       .size = range.size};
  }
  return std::nullopt;
}

std::deque<CaptureQueue::UnderWay>::iterator CaptureQueue::find(const ChunkHeader& chunk) {
  const SlotTime time{chunk.window, chunk.slot};
  const auto found = std::ranges::find_if(
      captures_, [&](const UnderWay& one) { return one.capture.time == time; });
  CHECK(found != captures_.end()) << "window " << time.window << ", slot " << time.slot;
  return found;
}

const RecordBytes& CaptureQueue::position_of(const ChunkHeader& chunk) const {
  return const_cast<CaptureQueue*>(this)->find(chunk)->capture.position;
}

WrittenState CaptureQueue::written(const ChunkHeader& chunk) const {
  const UnderWay& one = *const_cast<CaptureQueue*>(this)->find(chunk);
  const auto ready = one.ready.find(chunk.operator_index);
  return ready == one.ready.end() ? one.capture.written : ready->second;
}

void CaptureQueue::on_begun(const ChunkHeader& chunk) {
  const auto capture = find(chunk);
  CHECK(std::erase(capture->left, chunk.chunk) == 1) << "chunk " << chunk.chunk << " again";
  capture->begun.push_back(chunk.chunk);
}

bool CaptureQueue::on_read(const ChunkHeader& chunk) {
  const auto capture = find(chunk);
  CHECK(std::erase(capture->begun, chunk.chunk) == 1) << "chunk " << chunk.chunk;
  const bool is_complete = capture->left.empty() && capture->begun.empty();
  if (is_complete) captures_.erase(capture);
  return is_complete;
}

std::vector<SlotTime> CaptureQueue::under_way() const {
  std::vector<SlotTime> times;
  for (const UnderWay& one : captures_) times.push_back(one.capture.time);
  return times;
}

}  // namespace evermoe
