// Rows under way between the lanes of a stage group, in two halves: what needs none of them is
// computed between the start and the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "tensor/host_bytes.h"
#include "tensor/torch.h"

namespace evermoe {

// Every lane starts and ends the same exchanges in the same order, one after the other. A lane that
// has no rows for another sends it no message, since both know the numbers. Destroyed before its
// end, it withdraws its messages.
class RowExchange {
 public:
  // Starts sending `rows` [n, width] (host memory; nobody writes to it any more), rows_to[lane] to
  // each lane, and receiving rows_from[lane]; both in the order of lanes. `device`: where the
  // received rows are wanted.
  RowExchange(Communicator& group, at::Tensor rows, std::span<const int64_t> rows_to,
              std::span<const int64_t> rows_from, at::Device device);
  RowExchange(const RowExchange&) = delete;

  // Waits. The received rows, and behind them one of zeros. Throws StatusError. To be called once.
  at::Tensor finish();

  // What came from a lane, in host memory; after finish().
  std::span<const std::byte> bytes_from(int lane) const;

 private:
  void start(Communicator& group, std::span<const int64_t> rows_to);

  const at::Tensor rows_;
  const std::vector<int64_t> rows_from_;
  const int64_t row_bytes_;
  at::Tensor received_;
  HostWritable host_;
  std::vector<PendingMessage> messages_;  // end before the memory they use
};

}  // namespace evermoe
