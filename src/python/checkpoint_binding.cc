#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "protection/partial_experts/partial_experts.h"
#include "protection/schedule/window.h"
#include "python/bindings.h"
#include "python/narrow.h"

namespace evermoe {
namespace {

namespace py = pybind11;
using Integers = std::vector<int64_t>;

// All sums stay below 2^63.
constexpr int64_t kBytesMax = int64_t{1} << 62;
constexpr int64_t kCursorMax = int64_t{1} << 60;
constexpr int64_t kRanksMax = int64_t{1} << 20;
constexpr int64_t kSavedMax = int64_t{1} << 30;

std::vector<OperatorCost> checked_costs(const Integers& full_bytes, const Integers& compute_bytes) {
  if (full_bytes.size() != compute_bytes.size()) {
    throw_if_error(InvalidInput(absl::StrCat("full_bytes has ", full_bytes.size(),
                                             " operators, compute_bytes ", compute_bytes.size())));
  }
  std::vector<OperatorCost> costs;
  int64_t sum = 0;
  for (size_t i = 0; i < full_bytes.size(); ++i) {
    const OperatorCost cost{.full_bytes = full_bytes[i], .compute_bytes = compute_bytes[i]};
    if (cost.compute_bytes < 0 || cost.full_bytes < cost.compute_bytes) {
      throw_if_error(InvalidInput(absl::StrCat("operator ", i, ": ", cost.compute_bytes,
                                               " compute-only bytes of ", cost.full_bytes,
                                               " full bytes; expected 0 <= compute <= full")));
    }
    if (cost.full_bytes > kBytesMax - sum) {
      throw_if_error(InvalidInput("full_bytes: the operators together have more than 2^62 bytes"));
    }
    sum += cost.full_bytes;
    costs.push_back(cost);
  }
  return costs;
}

std::vector<std::pair<int, int>> window(const Integers& full_bytes, const Integers& compute_bytes,
                                        int64_t budget_bytes) {
  if (budget_bytes < 0) throw_if_error(InvalidInput("budget_bytes: must not be negative"));
  const auto result = minimal_window(checked_costs(full_bytes, compute_bytes), budget_bytes);
  if (const auto* infeasible = std::get_if<WindowInfeasible>(&result)) {
    throw_if_error(
        InvalidInput(absl::StrCat("budget_bytes: ", infeasible->missing_bytes,
                                  " bytes are missing for operator ", infeasible->operator_index)));
  }
  std::vector<std::pair<int, int>> slots;
  for (const Slot& slot : std::get<Window>(result).slots) slots.emplace_back(slot.begin, slot.end);
  return slots;
}

struct Owners {
  std::vector<int> owner_of;
  int ranks = 0;
};

Owners checked_owners(const Integers& owners, int64_t k) {
  if (owners.empty()) throw_if_error(InvalidInput("owners: no expert"));
  if (k < 1 || k > static_cast<int64_t>(owners.size())) {
    throw_if_error(
        InvalidInput(absl::StrCat("k: ", k, " is not between 1 and ", owners.size(), " experts")));
  }
  Owners checked{.owner_of = narrow_all(owners, "owners")};
  for (int rank : checked.owner_of) {
    if (rank < 0 || rank >= kRanksMax) {
      throw_if_error(InvalidInput(absl::StrCat("owners: ", rank, " is no rank")));
    }
    checked.ranks = std::max(checked.ranks, rank + 1);
  }
  return checked;
}

LossySelection select_sequential(int64_t k, const Integers& owners, int64_t layers,
                                 int64_t cursor) {
  const Owners checked = checked_owners(owners, k);
  if (layers < 0 || layers > kSavedMax / k) {
    throw_if_error(
        InvalidInput(absl::StrCat("layers: ", layers, " is not between 0 and ", kSavedMax / k)));
  }
  if (cursor < 0 || cursor > kCursorMax) {
    throw_if_error(InvalidInput(absl::StrCat("cursor: ", cursor, " is not between 0 and 2^60")));
  }
  return lossy_sequential(cursor, static_cast<int>(layers), static_cast<int>(k),
                          interleaved_experts(checked.owner_of, checked.ranks));
}

LossySelection select_load_aware(int64_t k, const Integers& owners, const ExpertTable& unsaved) {
  const Owners checked = checked_owners(owners, k);
  for (const Integers& layer : unsaved) {
    if (layer.size() != owners.size()) {
      throw_if_error(InvalidInput(absl::StrCat("unsaved: a layer has ", layer.size(),
                                               " experts instead of ", owners.size())));
    }
    if (std::ranges::any_of(layer, [](int64_t tokens) { return tokens < 0; })) {
      throw_if_error(InvalidInput("unsaved: must not be negative"));
    }
  }
  return lossy_load_aware(unsaved, static_cast<int>(k), checked.owner_of, checked.ranks).selection;
}

}  // namespace

void bind_checkpoint(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  module.def("minimal_window", &window, py::arg("full_bytes"), py::arg("compute_bytes"),
             py::arg("budget_bytes"), Release());
  module.def("select_sequential", &select_sequential, py::arg("k"), py::arg("owners"),
             py::arg("layers"), py::arg("cursor"), Release());
  module.def("select_load_aware", &select_load_aware, py::arg("k"), py::arg("owners"),
             py::arg("unsaved"), Release());
}

}  // namespace evermoe
