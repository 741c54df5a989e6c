#include "planner/cluster_model/gpu_catalog.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace evermoe {
namespace {

struct Entry {
  const char* name;
  double tflops, memory_gb, memory_gb_s, fabric_gb_s, host_gb_s;
};

constexpr Entry kEntries[] = {
    {"V100-32GB", 125, 32, 900, 150, 12},  {"A100-40GB", 312, 40, 1555, 300, 25},
    {"A100-80GB", 312, 80, 2039, 300, 25}, {"H20", 148, 96, 4000, 450, 50},
    {"H800", 989, 80, 3350, 200, 50},      {"H100", 989, 80, 3350, 450, 50},
    {"H200", 989, 141, 4800, 450, 50},     {"B200", 2250, 180, 8000, 900, 50},
    {"GB200", 2500, 192, 8000, 900, 200},  {"MI300X", 1307, 192, 5300, 448, 50},
};

// data/planner/grouped-gemm-efficiency.csv, column "default"; the last holds for more tokens, too.
struct Point {
  double tokens, share;
};
constexpr Point kGrouped[] = {{8, 0.05},   {16, 0.08}, {32, 0.1},  {64, 0.2},
                              {128, 0.35}, {256, 0.4}, {512, 0.6}, {1024, 0.7}};

}  // namespace

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.push_back(entry.name);
  return names;
}

absl::StatusOr<GpuSpec> gpu_spec(const std::string& name) {
  for (const Entry& entry : kEntries) {
    if (name != entry.name) continue;
    return GpuSpec{name,
                   entry.tflops * 1e12,
                   entry.memory_gb * 1e9,
                   entry.memory_gb_s * 1e9,
                   entry.fabric_gb_s * 1e9,
                   entry.host_gb_s * 1e9};
  }
  return InvalidInput(
      absl::StrCat("no GPU \"", name, "\", allowed: ", absl::StrJoin(gpu_names(), ", ")));
}

double grouped_product_share(double tokens_per_expert) {
  const Point& last = *std::rbegin(kGrouped);
  const auto above =
      std::find_if(std::begin(kGrouped), std::end(kGrouped),
                   [&](const Point& point) { return point.tokens >= tokens_per_expert; });
  if (above == std::end(kGrouped)) return 1;
  if (above == std::begin(kGrouped)) return above->share / last.share;
  const Point& below = *(above - 1);
  const double part =
      std::log(tokens_per_expert / below.tokens) / std::log(above->tokens / below.tokens);
  return (below.share + part * (above->share - below.share)) / last.share;
}

}  // namespace evermoe
