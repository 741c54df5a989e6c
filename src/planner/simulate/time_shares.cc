#include "planner/simulate/time_shares.h"

#include "absl/strings/str_cat.h"
#include "planner/report/amount_text.h"

namespace evermoe {
namespace {

using Span = RunSpan::Kind;

constexpr TimeCause kCauses[] = {
    {"training", "training that stays done", "Steps that no failure undoes: the ETTR.", "#1b7f5c",
     Span::kTraining, [](const RunEstimates& r) { return r.ettr.mean; }},
    {"capture", "capture overhead",
     "Slower steps while snapshots, copies and logs are made, and stops for saves.", "#56b4e9",
     Span::kTraining, [](const RunEstimates& r) { return r.protection_share.mean; }},
    {"lost_work", "lost work", "Steps that a failure undid and that are run again.", "#d55e00",
     Span::kLost, [](const RunEstimates& r) { return r.rework_share.mean; }},
    {"detection", "detection", "From a failure until it is noticed.", "#f0c419", Span::kDetecting,
     [](const RunEstimates& r) { return r.detection_share.mean; }},
    {"restart", "restart",
     "Replacing nodes, starting processes, connecting; pauses to migrate and to grow.", "#cc79a7",
     Span::kChanging, [](const RunEstimates& r) { return r.change_share.mean; }},
    {"restore", "loading and catching up", "Reading the state back and running the steps since.",
     "#0072b2", Span::kRestoring, [](const RunEstimates& r) { return r.restore_share.mean; }},
    {"waiting", "waiting for nodes", "Too few nodes are up, and no spare is left.", "#7a7a7a",
     Span::kWaiting, [](const RunEstimates& r) { return r.waiting_share.mean; }},
    {"fewer_nodes", "fewer nodes",
     "The speed that is missing while training goes on with fewer nodes.", "#b8a07e",
     Span::kTraining, [](const RunEstimates& r) { return r.shrunk_share.mean; }},
};

constexpr double kNoticed = 1e-4;

}  // namespace

std::span<const TimeCause> time_causes() { return kCauses; }

std::string largest_fall(const RunEstimates& before, const RunEstimates& after) {
  const TimeCause* most = nullptr;
  double fall = kNoticed;
  for (const TimeCause& cause : time_causes().subspan(1)) {
    const double change = cause.share(before) - cause.share(after);
    if (change > fall) {
      most = &cause;
      fall = change;
    }
  }
  if (most == nullptr) return "";
  return absl::StrCat(most->name, " (", percent_text(most->share(before)), " to ",
                      percent_text(most->share(after)), ")");
}

}  // namespace evermoe
