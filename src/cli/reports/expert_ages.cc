#include "cli/reports/expert_ages.h"

#include <functional>
#include <limits>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/reports/number_text.h"

namespace evermoe {
namespace {

// A manifest may say anything.
void add_tokens(int64_t tokens, int64_t& sum) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  sum = tokens > kMost - sum ? kMost : sum + tokens;
}

}  // namespace

ExpertAges expert_ages(const Manifest& manifest) {
  ExpertAges ages;
  std::map<Step, int64_t, std::greater<>> experts;
  for (const ManifestOperator& op : manifest.operators) {
    const Step step = saved_at(manifest, op);
    const bool is_older = step != manifest.position.step;
    if (!is_older && !absl::StrContains(op.name, ".expert.")) continue;
    ++experts[step];
    add_tokens(op.unsaved_tokens, ages.unsaved_tokens);
    add_tokens(op.lost_tokens, ages.lost_tokens);
    ages.older += is_older;
    if (ages.oldest.empty() || step < ages.oldest_step) {
      ages.oldest = op.name;
      ages.oldest_step = step;
    }
  }
  for (const auto& [step, count] : experts) ages.groups.push_back({step, count});
  return ages;
}

std::string to_text(const ExpertAges& ages) {
  const std::string groups =
      absl::StrJoin(ages.groups, ", ", [](std::string* out, const ExpertAges::Group& group) {
        absl::StrAppend(out, with_commas(group.experts), " of step ",
                        with_commas(group.step.value));
      });
  const int64_t steps = ages.groups.front().step.value - ages.oldest_step.value;
  if (steps == 0) return groups;
  return absl::StrCat(groups, "; the oldest: ", ages.oldest, ", ", with_commas(steps),
                      steps == 1 ? " step" : " steps", " older");
}

}  // namespace evermoe
