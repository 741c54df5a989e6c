#include "checkpoint/operator_split.h"

#include <algorithm>
#include <optional>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace evermoe {
namespace {

// Compute-only bytes of the elements before byte `position` of the full snapshot.
int64_t compute_before(const OperatorCost& cost, int64_t position) {
  if (cost.full_bytes == 0) return 0;
  return static_cast<int64_t>(absl::int128(cost.compute_bytes) * position / cost.full_bytes);
}

OperatorPiece piece_of(int index, const OperatorCost& cost, int64_t begin, int64_t end) {
  return {index, begin, end, {end - begin, compute_before(cost, end) - compute_before(cost, begin)}};
}

// Fills slots from the last one backwards, as minimal_window does, and cuts where it must.
class Splitter {
 public:
  Splitter(int64_t budget_bytes, int64_t granularity_bytes)
      : budget_bytes_(budget_bytes), granularity_bytes_(granularity_bytes) {}

  void add_whole(int index, const OperatorCost& cost) {
    if (slot_bytes_ + cost.full_bytes > budget_bytes_) slot_bytes_ = compute_after_;
    place(piece_of(index, cost, 0, cost.full_bytes));
  }

  void add_cut(int index, const OperatorCost& cost) {
    for (int64_t end = cost.full_bytes; end > 0;) {
      int64_t begin = lowest_begin(end);
      if (begin >= end) {
        slot_bytes_ = compute_after_;  // the next slot, towards the front
        begin = lowest_begin(end);
      }
      CHECK(begin < end) << "a granule does not fit";
      place(piece_of(index, cost, begin, end));
      end = begin;
    }
  }

  std::vector<OperatorPiece> in_capture_order() && {
    std::reverse(pieces_.begin(), pieces_.end());
    return std::move(pieces_);
  }

 private:
  // Where the longest piece that ends at `end` and fits into the slot begins.
  int64_t lowest_begin(int64_t end) const {
    const int64_t lowest = std::max<int64_t>(0, end - (budget_bytes_ - slot_bytes_));
    return (lowest + granularity_bytes_ - 1) / granularity_bytes_ * granularity_bytes_;
  }

  void place(OperatorPiece piece) {
    slot_bytes_ += piece.cost.full_bytes;
    compute_after_ += piece.cost.compute_bytes;
    pieces_.push_back(piece);
  }

  const int64_t budget_bytes_;
  const int64_t granularity_bytes_;
  int64_t slot_bytes_ = 0;     // of the slot being filled
  int64_t compute_after_ = 0;  // of everything placed so far
  std::vector<OperatorPiece> pieces_;
};

// The first granule of an operator has the most compute-only bytes after it. If that fits, all do.
std::optional<WindowInfeasible> granule_too_large(std::span<const OperatorCost> costs,
                                                  int64_t budget_bytes, int64_t granularity_bytes) {
  std::optional<WindowInfeasible> worst;
  int64_t compute_after = 0;
  for (int i = static_cast<int>(costs.size()) - 1; i >= 0; --i) {
    const int64_t granule = std::min(granularity_bytes, costs[i].full_bytes);
    const int64_t beside = compute_after + costs[i].compute_bytes - compute_before(costs[i], granule);
    const int64_t missing = granule + beside - budget_bytes;
    if (missing > 0 && (!worst || missing >= worst->missing_bytes)) {
      worst = WindowInfeasible{missing, i,
          absl::StrCat("a piece of ", granule, " bytes of operator ", i, " of the capture order and ", beside,
                       " bytes for the compute-only snapshots after it exceed the budget of ", budget_bytes,
                       " bytes per step: ", missing, " bytes missing, splitting further does not help")};
    }
    compute_after += costs[i].compute_bytes;
  }
  return worst;
}

}  // namespace

std::variant<std::vector<OperatorPiece>, WindowInfeasible> split_oversized(
    std::span<const OperatorCost> costs, int64_t budget_bytes, int64_t granularity_bytes) {
  CHECK(granularity_bytes >= 1) << granularity_bytes;
  if (auto infeasible = granule_too_large(costs, budget_bytes, granularity_bytes)) return *infeasible;
  Splitter splitter(budget_bytes, granularity_bytes);
  int64_t compute_after = 0;
  for (int i = static_cast<int>(costs.size()) - 1; i >= 0; --i) {
    if (costs[i].full_bytes + compute_after <= budget_bytes) {
      splitter.add_whole(i, costs[i]);
    } else {
      splitter.add_cut(i, costs[i]);
    }
    compute_after += costs[i].compute_bytes;
  }
  return std::move(splitter).in_capture_order();
}

std::vector<OperatorCost> piece_costs(std::span<const OperatorPiece> pieces) {
  std::vector<OperatorCost> costs;
  for (const OperatorPiece& piece : pieces) costs.push_back(piece.cost);
  return costs;
}

}  // namespace evermoe
