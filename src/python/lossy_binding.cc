// LOSSY: tokens that partial-expert checkpoints lose, and how many experts they save.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "protection/partial_experts/dynamic_k.h"
#include "protection/partial_experts/lost_tokens.h"
#include "python/bindings.h"
#include "python/narrow.h"

namespace evermoe {
namespace {

namespace py = pybind11;

constexpr int64_t kTableMax = int64_t{1} << 24;   // layers x experts
constexpr int64_t kTokensMax = int64_t{1} << 40;  // of one expert and step

int in_range(int64_t value, int64_t least, int64_t most, const char* name) {
  if (value < least || value > most)
    throw_if_error(
        InvalidInput(absl::StrCat(name, ": ", value, " is not between ", least, " and ", most)));
  return narrow(value, name);
}

// LossyTokenCounters, whose requirements are checked first.
class LostTokens {
 public:
  LostTokens(int64_t layers, int64_t experts)
      : layers_(in_range(layers, 1, kTableMax, "layers")),
        experts_(in_range(experts, 1, kTableMax / layers, "experts")),
        counters_(layers_, experts_) {}

  void add_step(const ExpertTable& tokens) {
    if (std::ssize(tokens) != layers_)
      throw_if_error(
          InvalidInput(absl::StrCat("tokens: ", tokens.size(), " layers instead of ", layers_)));
    for (const auto& layer : tokens) {
      if (std::ssize(layer) != experts_)
        throw_if_error(InvalidInput(
            absl::StrCat("tokens: a layer has ", layer.size(), " experts instead of ", experts_)));
      for (const int64_t count : layer) {
        if (count < 0 || count > kTokensMax)
          throw_if_error(
              InvalidInput(absl::StrCat("tokens: ", count, " is not between 0 and 2^40")));
      }
    }
    counters_.add_step(tokens);
  }

  void snapshot(int64_t version) {
    if (!open_.empty() && *open_.rbegin() >= version) {
      throw_if_error(InvalidInput(absl::StrCat("version: ", version, " is not above ",
                                               *open_.rbegin(), ", which is under way")));
    }
    counters_.snapshot(version);
    open_.insert(version);
  }

  void commit(int64_t version, const LossySelection& saved) {
    check(version, saved);
    counters_.commit(version, saved);
    open_.erase(open_.begin(), open_.upper_bound(version));
  }

  void discard(int64_t version) {
    check_open(version);
    counters_.discard(version);
    open_.erase(version);
  }

  int64_t exposed() const { return counters_.exposed(); }
  int64_t exposed_after(int64_t version, const LossySelection& saved) const {
    check(version, saved);
    return counters_.exposed_after(version, saved);
  }

  int64_t fault() {
    open_.clear();
    return counters_.fault();
  }

  ExpertTable unsaved() const { return counters_.unsaved(); }

 private:
  void check_open(int64_t version) const {
    if (!open_.contains(version))
      throw_if_error(
          InvalidInput(absl::StrCat("version: ", version, " has no snapshot under way")));
  }

  void check(int64_t version, const LossySelection& saved) const {
    check_open(version);
    if (std::ssize(saved) != layers_)
      throw_if_error(
          InvalidInput(absl::StrCat("saved: ", saved.size(), " layers instead of ", layers_)));
    for (const auto& layer : saved) {
      std::set<int> once;
      for (const int expert : layer) {
        if (expert < 0 || expert >= experts_ || !once.insert(expert).second) {
          throw_if_error(InvalidInput(absl::StrCat("saved: expert ", expert, " is not one of ",
                                                   experts_, ", or there twice")));
        }
      }
    }
  }

  const int layers_;
  const int experts_;
  LossyTokenCounters counters_;
  std::set<int64_t> open_;  // versions with a snapshot
};

using KState = std::tuple<int64_t, int64_t, int64_t>;  // k, lost, lost under k
using KResult = std::tuple<int64_t, int64_t, int64_t, std::string>;

LossyKOptions options_of(int64_t experts, int64_t k_first, int64_t lost_tokens_max) {
  LossyKOptions options;
  options.experts = in_range(experts, 1, kTableMax, "experts");
  options.k_first = in_range(k_first, 1, options.experts, "k_first");
  if (lost_tokens_max < 0) throw_if_error(InvalidInput("lost_tokens_max: must not be negative"));
  options.lost_tokens_max = lost_tokens_max;
  return options;
}

LossyKState state_of(const KState& state, const LossyKOptions& options) {
  const auto [k, lost, under] = state;
  if (lost < 0 || under < 0 || under > lost || lost > int64_t{1} << 55)
    throw_if_error(
        InvalidInput("state: the lost tokens are not 0 <= lost_under_k <= lost <= 2^55"));
  return {.k = in_range(k, 1, options.experts, "k"), .lost = lost, .lost_under_k = under};
}

KResult result_of(const LossyKDecision& decision) {
  return {decision.state.k, decision.state.lost, decision.state.lost_under_k, decision.reason};
}

KResult k_after_fault(const KState& state, int64_t lost_now, int64_t experts, int64_t k_first,
                      int64_t lost_tokens_max) {
  const LossyKOptions options = options_of(experts, k_first, lost_tokens_max);
  if (lost_now < 0 || lost_now > int64_t{1} << 55)
    throw_if_error(
        InvalidInput(absl::StrCat("lost_now: ", lost_now, " is not between 0 and 2^55")));
  return result_of(lossy_k_after_fault(state_of(state, options), lost_now, options));
}

KResult k_guarded(const KState& state, const std::function<int64_t(int)>& exposed_after,
                  int64_t experts, int64_t k_first, int64_t lost_tokens_max) {
  const LossyKOptions options = options_of(experts, k_first, lost_tokens_max);
  const auto checked = [&](int k) {
    const int64_t exposed = exposed_after(k);
    if (exposed < 0 || exposed > int64_t{1} << 55)
      throw_if_error(
          InvalidInput(absl::StrCat("exposed_after: ", exposed, " is not between 0 and 2^55")));
    if (k == options.experts && exposed != 0)
      throw_if_error(InvalidInput("exposed_after: must be 0 where all experts are saved"));
    return exposed;
  };
  return result_of(lossy_k_guarded(state_of(state, options), checked, options));
}

double share_of_lost_tokens(int64_t lost, int64_t total) {
  if (total < 1 || lost < 0)
    throw_if_error(InvalidInput(absl::StrCat("lost, total: ", lost, " of ", total,
                                             " tokens; expected lost >= 0 and total >= 1")));
  return portion_of_lost_tokens(lost, total);
}

}  // namespace

void bind_lossy(py::module_& module) {
  py::class_<LostTokens>(module, "LostTokens")
      .def(py::init<int64_t, int64_t>(), py::arg("layers"), py::arg("experts"))
      .def("add_step", &LostTokens::add_step, py::arg("tokens"))
      .def("snapshot", &LostTokens::snapshot, py::arg("version"))
      .def("commit", &LostTokens::commit, py::arg("version"), py::arg("saved"))
      .def("discard", &LostTokens::discard, py::arg("version"))
      .def("exposed", &LostTokens::exposed)
      .def("exposed_after", &LostTokens::exposed_after, py::arg("version"), py::arg("saved"))
      .def("fault", &LostTokens::fault)
      .def("unsaved", &LostTokens::unsaved);
  module.def("lost_token_share", &share_of_lost_tokens, py::arg("lost"), py::arg("total"));
  module.def("k_after_fault", &k_after_fault, py::arg("state"), py::arg("lost_now"),
             py::arg("experts"), py::arg("k_first"), py::arg("lost_tokens_max"));
  module.def("k_guarded", &k_guarded, py::arg("state"), py::arg("exposed_after"),
             py::arg("experts"), py::arg("k_first"), py::arg("lost_tokens_max"));
}

}  // namespace evermoe
