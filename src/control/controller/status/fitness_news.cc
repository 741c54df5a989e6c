#include "control/controller/status/fitness_news.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "control/health/node_health.h"

namespace evermoe {

std::string fitness_news(Node node, const std::vector<std::string>& before,
                         const std::vector<std::string>& now) {
  const bool was_fit = before.empty();
  const bool was_measured = before != std::vector<std::string>{kNotMeasured};
  if ((was_fit || !was_measured) && !now.empty() && now != before)
    return absl::StrCat(
        "node ", node.value,
        " is left out: its machine is not fit to play a role: ", absl::StrJoin(now, "; "));
  if (!was_fit && now.empty()) return absl::StrCat("node ", node.value, " is fit again");
  return "";
}

}  // namespace evermoe
