#include "train/dispatch/row_exchange.h"

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

// Exchanges of a group follow each other, and messages of one name come in the order sent.
constexpr uint32_t kRowsName = 1;

// Memory for as many rows; pages that nobody touches cost nothing.
at::Tensor on_host(const at::Tensor& rows) {
  return rows.is_cpu() ? rows : at::empty(rows.sizes(), rows.options().device(at::kCPU));
}

}  // namespace

std::vector<RowExchange::Part> RowExchange::parts_of(std::span<const int64_t> rows) {
  std::vector<Part> parts;
  int64_t begin = 0;
  for (const int64_t count : rows) {
    parts.push_back({begin, count});
    begin += count;
  }
  return parts;
}

RowExchange::RowExchange(Communicator& group, at::Tensor rows, std::span<const int64_t> rows_to,
                         std::span<const int64_t> rows_from, std::span<const Notes> notes)
    : own_(group.index()),
      rows_(std::move(rows)),
      to_(parts_of(rows_to)),
      from_(parts_of(rows_from)),
      row_bytes_(rows_.size(1) * rows_.element_size()),
      received_(
          at::empty({from_.back().begin + from_.back().rows + 1, rows_.size(1)}, rows_.options())),
      host_out_(on_host(rows_)),
      host_in_(on_host(received_)) {
  CHECK(rows_.is_contiguous() && to_.back().begin + to_.back().rows == rows_.size(0));
  CHECK(to_[static_cast<size_t>(own_)].rows == from_[static_cast<size_t>(own_)].rows);
  for (int lane = 0; lane < group.size(); ++lane) bring_to_host(lane);
  keep_own();
  write_notes(notes);
  start(group);
}

std::span<std::byte> RowExchange::bytes_of(const at::Tensor& host, const Part& part) const {
  return host_bytes(host).subspan(static_cast<size_t>(part.begin * row_bytes_),
                                  static_cast<size_t>(part.rows * row_bytes_));
}

at::Tensor RowExchange::rows_of(const at::Tensor& all, const Part& part) const {
  return all.narrow(0, part.begin, part.rows);
}

void RowExchange::bring_to_host(int lane) {
  const Part& part = to_[static_cast<size_t>(lane)];
  if (lane == own_ || part.rows == 0 || rows_.is_cpu()) return;
  rows_of(host_out_, part).copy_(rows_of(rows_, part));
}

void RowExchange::keep_own() {
  const auto own = static_cast<size_t>(own_);
  rows_of(received_, from_[own]).copy_(rows_of(rows_, to_[own]));
  rows_of(received_, {received_.size(0) - 1, 1}).zero_();
}

void RowExchange::write_notes(std::span<const Notes> notes) {
  for (size_t lane = 0; lane < notes.size(); ++lane) {
    const std::span<const std::byte> values = std::as_bytes(notes[lane].values);
    if (values.empty()) continue;
    const bool is_own = static_cast<int>(lane) == own_;
    const std::span<std::byte> message =
        is_own ? bytes_of(host_in_, from_[lane]) : bytes_of(host_out_, to_[lane]);
    const auto at = static_cast<size_t>(notes[lane].row * row_bytes_);
    CHECK(at + values.size() <= message.size());
    std::memcpy(message.data() + at, values.data(), values.size());
  }
}

void RowExchange::start(Communicator& group) {
  const int lanes = group.size();
  for (int i = 1; i < lanes; ++i) {
    const int from = (own_ + lanes - i) % lanes;
    const std::span<std::byte> into = bytes_of(host_in_, from_[static_cast<size_t>(from)]);
    if (!into.empty()) messages_.push_back(group.start_receive(from, kRowsName, into));
  }
  for (int i = 1; i < lanes; ++i) {
    const int to = (own_ + i) % lanes;
    const std::span<const std::byte> bytes = bytes_of(host_out_, to_[static_cast<size_t>(to)]);
    if (!bytes.empty()) messages_.push_back(group.start_send(to, kRowsName, bytes));
  }
}

at::Tensor RowExchange::finish() {
  for (PendingMessage& message : messages_)
    throw_if_error(annotate(message.wait(), "token exchange"));
  messages_.clear();
  for (size_t lane = 0; lane < from_.size(); ++lane) {
    if (static_cast<int>(lane) == own_ || from_[lane].rows == 0 || received_.is_cpu()) continue;
    rows_of(received_, from_[lane]).copy_(rows_of(host_in_, from_[lane]));
  }
  return received_;
}

std::span<const std::byte> RowExchange::bytes_from(int lane) const {
  return bytes_of(host_in_, from_[static_cast<size_t>(lane)]);
}

}  // namespace evermoe
