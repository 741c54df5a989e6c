#include "train/layers/row_exchange.h"

#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Exchanges of a group follow each other, and messages of one name come in the order sent.
constexpr uint32_t kRowsName = 1;

at::Tensor memory_for(const at::Tensor& rows, std::span<const int64_t> rows_from,
                      at::Device device) {
  const int64_t total = std::accumulate(rows_from.begin(), rows_from.end(), int64_t{0});
  return at::empty({total + 1, rows.size(1)}, rows.options().device(device));
}

// Where each lane's part begins and, at the end, where the last one ends.
std::vector<size_t> begins_of(std::span<const int64_t> rows, int64_t row_bytes) {
  std::vector<size_t> begins = {0};
  for (const int64_t count : rows)
    begins.push_back(begins.back() + static_cast<size_t>(count * row_bytes));
  return begins;
}

}  // namespace

RowExchange::RowExchange(Communicator& group, at::Tensor rows, std::span<const int64_t> rows_to,
                         std::span<const int64_t> rows_from, at::Device device)
    : rows_(std::move(rows)),
      rows_from_(rows_from.begin(), rows_from.end()),
      row_bytes_(rows_.size(1) * rows_.element_size()),
      received_(memory_for(rows_, rows_from, device)),
      host_(received_) {
  start(group, rows_to);
}

void RowExchange::start(Communicator& group, std::span<const int64_t> rows_to) {
  const std::span<const std::byte> out = HostReadable(rows_).bytes();
  const std::span<std::byte> in = host_.bytes();
  const std::vector<size_t> out_begins = begins_of(rows_to, row_bytes_);
  const std::vector<size_t> in_begins = begins_of(rows_from_, row_bytes_);
  CHECK(out_begins.back() == out.size());
  const auto part = [](auto bytes, const std::vector<size_t>& begins, int lane) {
    const auto at = static_cast<size_t>(lane);
    return bytes.subspan(begins[at], begins[at + 1] - begins[at]);
  };
  const int own = group.index(), lanes = group.size();
  for (int i = 1; i < lanes; ++i) {
    const int from = (own + lanes - i) % lanes;
    const std::span<std::byte> into = part(in, in_begins, from);
    if (!into.empty()) messages_.push_back(group.start_receive(from, kRowsName, into));
  }
  for (int i = 1; i < lanes; ++i) {
    const int to = (own + i) % lanes;
    const std::span<const std::byte> bytes = part(out, out_begins, to);
    if (!bytes.empty()) messages_.push_back(group.start_send(to, kRowsName, bytes));
  }
  const std::span<const std::byte> kept = part(out, out_begins, own);
  const std::span<std::byte> into = part(in, in_begins, own);
  CHECK(kept.size() == into.size());
  if (!kept.empty()) std::memcpy(into.data(), kept.data(), kept.size());
  const std::span<std::byte> zeros = in.subspan(in_begins.back());
  std::memset(zeros.data(), 0, zeros.size());
}

at::Tensor RowExchange::finish() {
  for (PendingMessage& message : messages_)
    throw_if_error(annotate(message.wait(), "token exchange"));
  messages_.clear();
  host_.commit();
  return received_;
}

std::span<const std::byte> RowExchange::bytes_from(int lane) const {
  const std::vector<size_t> begins = begins_of(rows_from_, row_bytes_);
  const auto at = static_cast<size_t>(lane);
  return host_.bytes().subspan(begins[at], begins[at + 1] - begins[at]);
}

}  // namespace evermoe
