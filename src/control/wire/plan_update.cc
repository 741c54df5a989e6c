#include "control/wire/plan_update.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

bool is_same(const PeerAddress& a, const PeerAddress& b) {
  return a.address == b.address && a.since == b.since;
}
bool is_same(const std::vector<Rank>& a, const std::vector<Rank>& b) { return a == b; }

template <typename Entry>
RankEntries<Entry> entries_of(const std::vector<Entry>* base, const std::vector<Entry>& list) {
  RankEntries<Entry> changed;
  changed.size = static_cast<int32_t>(list.size());
  for (size_t r = 0; r < list.size(); ++r) {
    const bool has_base = base != nullptr && r < base->size();
    if (is_same(list[r], has_base ? (*base)[r] : Entry{})) continue;
    changed.ranks.push_back(Rank(static_cast<int32_t>(r)));
    changed.entries.push_back(list[r]);
  }
  return changed;
}

template <typename Entry>
bool apply(const RankEntries<Entry>& changed, std::vector<Entry> base, std::vector<Entry>& list) {
  if (changed.size > kPlanRanksMax || changed.ranks.size() != changed.entries.size()) return false;
  list = std::move(base);
  list.resize(static_cast<size_t>(changed.size));
  for (size_t i = 0; i < changed.ranks.size(); ++i) {
    if (changed.ranks[i].value >= changed.size) return false;
    list[static_cast<size_t>(changed.ranks[i].value)] = changed.entries[i];
  }
  return true;
}

}  // namespace

PlanName name_of(const Plan& plan) {
  FingerprintStream stream;
  for (const PeerAddress& peer : plan.table)
    stream.update(absl::StrCat(peer.address, " ", peer.since.value, "\n"));
  for (const std::vector<Rank>& holders : plan.holders) {
    for (const Rank holder : holders) stream.update(absl::StrCat(holder.value, " "));
    stream.update("\n");
  }
  return {plan.view, stream.finish()};
}

PlanUpdate update_of(const Plan* base, const Plan& plan) {
  PlanUpdate update;
  if (base != nullptr) update.base = base->view;
  update.table = entries_of(base == nullptr ? nullptr : &base->table, plan.table);
  update.holders = entries_of(base == nullptr ? nullptr : &base->holders, plan.holders);
  update.sources = entries_of<std::vector<Rank>>(nullptr, plan.sources);
  update.rest.view = plan.view;
  update.rest.restart_all = plan.restart_all;
  update.rest.newest = plan.newest;
  update.rest.record_source = plan.record_source;
  update.rest.state = plan.state;
  update.rest.base = plan.base;
  update.rest.window = plan.window;
  update.rest.rolled_back = plan.rolled_back;
  update.rest.renews = plan.renews;
  update.rest.rejoining = plan.rejoining;
  update.rest.stage_epochs = plan.stage_epochs;
  update.rest.membership = plan.membership;
  update.rest.reasons = plan.reasons;
  update.rest.incident = plan.incident;
  return update;
}

absl::StatusOr<Plan> apply_update(const Plan* base, const PlanUpdate& update) {
  const View have = base == nullptr ? View(0) : base->view;
  if (update.base != View(0) && update.base != have) {
    return Corrupt(absl::StrCat("the plan of view ", update.rest.view.value,
                                " changes that of view ", update.base.value, ", not that of view ",
                                have.value));
  }
  const bool is_whole = update.base == View(0);
  Plan plan = update.rest;
  const bool fits =
      apply(update.table, is_whole ? std::vector<PeerAddress>{} : base->table, plan.table) &&
      apply(update.holders, is_whole ? std::vector<std::vector<Rank>>{} : base->holders,
            plan.holders) &&
      apply(update.sources, {}, plan.sources);
  if (!fits) return Corrupt("a plan with ranks that do not exist");
  return plan;
}

}  // namespace evermoe
