// Rows under way between the lanes of a stage group, in two halves: what needs none of them is
// computed between the start and the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "tensor/torch.h"

namespace evermoe {

// Every lane starts and ends the same exchanges in the same order, one after the other. A lane that
// has no rows for another sends it no message, since both know the numbers. Destroyed before its
// end, it withdraws its messages.
//
// Rows on a device stay there where their lane is this one; those of other lanes go through host
// memory.
class RowExchange {
 public:
  // What is written over the rows of a lane's message from number `row` on; nowhere if empty.
  struct Notes {
    int64_t row = 0;
    std::span<const int64_t> values;
  };

  // Starts sending `rows` [n, width], which nobody else uses any more, rows_to[lane] to each lane,
  // and receiving rows_from[lane]; both in the order of lanes. `notes`: by lane, or none at all.
  RowExchange(Communicator& group, at::Tensor rows, std::span<const int64_t> rows_to,
              std::span<const int64_t> rows_from, std::span<const Notes> notes = {});
  RowExchange(const RowExchange&) = delete;

  // Waits. The received rows on the device of those sent, and behind them one of zeros. What notes
  // were written over is undefined there. Throws StatusError. To be called once.
  at::Tensor finish();

  // What came from a lane, in host memory; after finish(). Of this lane itself, only its notes.
  std::span<const std::byte> bytes_from(int lane) const;

 private:
  void start(Communicator& group);
  // Rows of one lane.
  struct Part {
    int64_t begin = 0;
    int64_t rows = 0;
  };
  static std::vector<Part> parts_of(std::span<const int64_t> rows);
  std::span<std::byte> bytes_of(const at::Tensor& host, const Part& part) const;
  at::Tensor rows_of(const at::Tensor& all, const Part& part) const;
  void bring_to_host(int lane);
  void write_notes(std::span<const Notes> notes);
  void keep_own();

  const int own_;
  const at::Tensor rows_;
  const std::vector<Part> to_, from_;
  const int64_t row_bytes_;
  at::Tensor received_;
  at::Tensor host_out_, host_in_;         // the same tensors where they are in host memory
  std::vector<PendingMessage> messages_;  // end before the memory they use
};

}  // namespace evermoe
