#include "protection/partial_experts/lost_tokens.h"

#include <utility>

#include "base/check.h"

namespace evermoe {
namespace {

ExpertTable zeros_like(const ExpertTable& table) {
  return ExpertTable(table.size(), std::vector<int64_t>(table.empty() ? 0 : table[0].size(), 0));
}

int64_t sum(const ExpertTable& table) {
  int64_t total = 0;
  for (const auto& layer : table) {
    for (const int64_t tokens : layer) total += tokens;
  }
  return total;
}

ExpertTable without(ExpertTable table, const LossySelection& saved) {
  CHECK(saved.size() == table.size()) << saved.size() << " layers saved of " << table.size();
  for (size_t layer = 0; layer < table.size(); ++layer) {
    for (const int expert : saved[layer]) table[layer][expert] = 0;
  }
  return table;
}

// table -= what of `snapshot` belongs to `saved`.
void subtract(ExpertTable& table, const ExpertTable& snapshot, const LossySelection& saved) {
  for (size_t layer = 0; layer < table.size(); ++layer) {
    for (const int expert : saved[layer]) table[layer][expert] -= snapshot[layer][expert];
  }
}

}  // namespace

LossyTokenCounters::LossyTokenCounters(int layers, int experts)
    : unsaved_(layers, std::vector<int64_t>(experts, 0)), at_commit_(unsaved_) {
  CHECK(layers >= 0 && experts >= 1) << layers << " layers, " << experts << " experts";
}

void LossyTokenCounters::add_step(const ExpertTable& tokens) {
  CHECK(tokens.size() == unsaved_.size()) << tokens.size() << " layers";
  for (size_t layer = 0; layer < tokens.size(); ++layer) {
    CHECK(tokens[layer].size() == unsaved_[layer].size()) << tokens[layer].size() << " experts";
    for (size_t e = 0; e < tokens[layer].size(); ++e) unsaved_[layer][e] += tokens[layer][e];
  }
}

void LossyTokenCounters::snapshot(int64_t version) {
  CHECK(under_way_.empty() || under_way_.rbegin()->first < version) << "version " << version;
  under_way_[version] = unsaved_;
}

void LossyTokenCounters::commit(int64_t version, const LossySelection& saved) {
  const auto found = under_way_.find(version);
  CHECK(found != under_way_.end()) << "no snapshot " << version;
  const ExpertTable copy = std::move(found->second);
  under_way_.erase(under_way_.begin(), std::next(found));
  subtract(unsaved_, copy, saved);
  for (auto& [later, table] : under_way_) subtract(table, copy, saved);
  at_commit_ = without(copy, saved);
}

void LossyTokenCounters::discard(int64_t version) {
  CHECK(under_way_.erase(version) == 1) << "no snapshot " << version;
}

int64_t LossyTokenCounters::exposed() const { return sum(at_commit_); }

const ExpertTable& LossyTokenCounters::unsaved_at(int64_t version) const {
  const auto found = under_way_.find(version);
  CHECK(found != under_way_.end()) << "no snapshot " << version;
  return found->second;
}

int64_t LossyTokenCounters::exposed_after(int64_t version, const LossySelection& saved) const {
  return sum(without(unsaved_at(version), saved));
}

int64_t LossyTokenCounters::fault() {
  const int64_t lost = exposed();
  restart(zeros_like(unsaved_));
  return lost;
}

void LossyTokenCounters::restart(ExpertTable unsaved) {
  unsaved_ = std::move(unsaved);
  at_commit_ = unsaved_;
  under_way_.clear();
}

void LossyTwoLevelCounters::add_step(const ExpertTable& tokens) {
  memory_.add_step(tokens);
  storage_.add_step(tokens);
}

void LossyTwoLevelCounters::snapshot(int64_t version) {
  memory_.snapshot(version);
  storage_.snapshot(version);
}

void LossyTwoLevelCounters::commit(int64_t version, const LossyTwoLevelSelection& saved) {
  memory_.commit(version, saved.snapshot);
  storage_.commit(version, saved.persist);
}

void LossyTwoLevelCounters::discard(int64_t version) {
  memory_.discard(version);
  storage_.discard(version);
}

int64_t LossyTwoLevelCounters::fault(const std::vector<std::vector<bool>>& failed) {
  ExpertTable not_stored = storage_.at_commit();
  int64_t lost = 0;
  for (size_t layer = 0; layer < not_stored.size(); ++layer) {
    for (size_t e = 0; e < not_stored[layer].size(); ++e) {
      const int64_t gone = failed[layer][e] ? not_stored[layer][e] : memory_.at_commit()[layer][e];
      lost += gone;
      not_stored[layer][e] -= gone;
    }
  }
  ExpertTable nothing = zeros_like(not_stored);
  restart(std::move(nothing), std::move(not_stored));
  return lost;
}

void LossyTwoLevelCounters::restart(ExpertTable unsaved_in_memory, ExpertTable unsaved_in_storage) {
  memory_.restart(std::move(unsaved_in_memory));
  storage_.restart(std::move(unsaved_in_storage));
}

double portion_of_lost_tokens(int64_t lost, int64_t tokens_total) {
  CHECK(tokens_total > 0) << tokens_total;
  return static_cast<double>(lost) / static_cast<double>(tokens_total);
}

}  // namespace evermoe
