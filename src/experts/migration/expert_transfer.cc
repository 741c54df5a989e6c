#include "experts/migration/expert_transfer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/check.h"

namespace evermoe {
namespace {

std::vector<std::vector<int>> nodes_of_experts(const ExpertsOfNodes& held, int experts) {
  std::vector<std::vector<int>> nodes(experts);
  for (size_t node = 0; node < held.size(); ++node) {
    for (const int expert : held[node]) {
      if (expert >= experts) continue;
      auto& of = nodes[expert];
      if (of.empty() || of.back() != static_cast<int>(node)) of.push_back(static_cast<int>(node));
    }
  }
  return nodes;
}

std::vector<ExpertFetch> missing_experts(const ExpertsOfNodes& held, const ExpertsOfNodes& wanted) {
  std::vector<ExpertFetch> fetches;
  for (size_t node = 0; node < held.size(); ++node) {
    const std::set<int> has(held[node].begin(), held[node].end());
    for (const int expert : std::set<int>(wanted[node].begin(), wanted[node].end())) {
      CHECK(expert >= 0) << expert;
      if (!has.count(expert)) fetches.push_back({expert, static_cast<int>(node)});
    }
  }
  return fetches;
}

// Chooses a source for each fetch. Greedy first; then, as long as the busiest source can pass a
// transfer on along a chain of sources to one that has two fewer, it does. Without such a chain the
// sources that it reaches have to send everything that they do, so the busiest cannot send less.
class SourceChoice {
 public:
  SourceChoice(const std::vector<ExpertFetch>& fetches, const std::vector<std::vector<int>>& owners,
               size_t nodes)
      : fetches_(fetches), owners_(owners), source_of_(fetches.size(), -1), sends_(nodes) {}

  void choose(size_t enough);
  const std::vector<int>& source_of() const { return source_of_; }
  size_t busiest_load() const { return sends_[busiest()].size(); }

 private:
  void give(int fetch, int source) {
    source_of_[fetch] = source;
    sends_[source].insert(fetch);
  }
  int busiest() const;
  bool relieve(int source);

  const std::vector<ExpertFetch>& fetches_;
  const std::vector<std::vector<int>>& owners_;  // by expert
  std::vector<int> source_of_;                   // by fetch
  std::vector<std::set<int>> sends_;             // by node: its fetches
};

void SourceChoice::choose(size_t enough) {
  for (size_t fetch = 0; fetch < fetches_.size(); ++fetch) {
    const std::vector<int>& owners = owners_[fetches_[fetch].expert];
    const int least = *std::min_element(owners.begin(), owners.end(), [&](int a, int b) {
      return sends_[a].size() < sends_[b].size();
    });
    give(static_cast<int>(fetch), least);
  }
  while (busiest_load() > enough && relieve(busiest())) {
  }
}

int SourceChoice::busiest() const {
  const auto at = std::max_element(sends_.begin(), sends_.end(), [](const auto& a, const auto& b) {
    return a.size() < b.size();
  });
  return static_cast<int>(at - sends_.begin());
}

bool SourceChoice::relieve(int source) {
  constexpr int kUnseen = -1;
  std::vector<int> handed(sends_.size(), kUnseen);  // by node: the fetch that it would take over
  std::vector<bool> expert_seen(owners_.size(), false);
  std::vector<int> reached = {source};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const int fetch : sends_[reached[i]]) {
      const int expert = fetches_[fetch].expert;
      if (expert_seen[expert]) continue;  // its owners are reached already
      expert_seen[expert] = true;
      for (const int owner : owners_[expert]) {
        if (owner == source || handed[owner] != kUnseen) continue;
        handed[owner] = fetch;
        if (sends_[owner].size() + 2 > sends_[source].size()) {
          reached.push_back(owner);
          continue;
        }
        for (int to = owner; to != source;) {
          const int moved = handed[to], from = source_of_[moved];
          sends_[from].erase(moved);
          give(moved, to);
          to = from;
        }
        return true;
      }
    }
  }
  return false;
}

// Puts transfers into rounds: a colouring of the edges of the bipartite graph of senders and
// receivers with as many colours as its greatest degree (Koenig). A round in which both ends are
// free may not exist; then the rounds a (free for the sender) and b (free for the receiver) are
// exchanged along the chain of transfers that starts at the receiver. The chain cannot come back to
// the sender, whose a is free.
class Rounds {
 public:
  Rounds(std::vector<ExpertTransfer>& transfers, size_t nodes, int rounds)
      : transfers_(transfers), sends_(nodes, Table(rounds)), receives_(nodes, Table(rounds)) {}

  void add(int transfer);

 private:
  using Table = std::vector<std::optional<int>>;  // by round: the transfer

  static int first_free(const Table& table) {
    return static_cast<int>(std::find(table.begin(), table.end(), std::nullopt) - table.begin());
  }
  void exchange(int node, int a, int b);
  void put(int transfer, int round);

  std::vector<ExpertTransfer>& transfers_;
  std::vector<Table> sends_, receives_;  // by node
};

void Rounds::put(int transfer, int round) {
  ExpertTransfer& it = transfers_[transfer];
  it.round = round;
  sends_[it.source][round] = transfer;
  receives_[it.destination][round] = transfer;
}

// Frees round a of the receiver `node`, where b is free.
void Rounds::exchange(int node, int a, int b) {
  std::vector<int> chain;
  for (std::optional<int> next = receives_[node][a]; next;) {
    chain.push_back(*next);
    const ExpertTransfer& it = transfers_[*next];
    next = chain.size() % 2 == 1 ? sends_[it.source][b] : receives_[it.destination][a];
  }
  for (const int transfer : chain) {
    const ExpertTransfer& it = transfers_[transfer];
    sends_[it.source][it.round].reset();
    receives_[it.destination][it.round].reset();
  }
  for (const int transfer : chain) put(transfer, transfers_[transfer].round == a ? b : a);
}

void Rounds::add(int transfer) {
  const Table& sends = sends_[transfers_[transfer].source];
  const Table& receives = receives_[transfers_[transfer].destination];
  for (size_t round = 0; round < sends.size(); ++round) {
    if (!sends[round] && !receives[round]) return put(transfer, static_cast<int>(round));
  }
  const int a = first_free(sends), b = first_free(receives);
  exchange(transfers_[transfer].destination, a, b);
  put(transfer, a);
}

}  // namespace

TransferPlan plan_transfers(const ExpertsOfNodes& held, const ExpertsOfNodes& wanted) {
  CHECK(held.size() == wanted.size()) << held.size() << " nodes, " << wanted.size();
  TransferPlan plan;
  std::vector<ExpertFetch> fetches = missing_experts(held, wanted);
  int experts = 0;
  for (const ExpertFetch& fetch : fetches) experts = std::max(experts, fetch.expert + 1);
  const std::vector<std::vector<int>> owners = nodes_of_experts(held, experts);
  const auto is_available = [&](const ExpertFetch& fetch) { return !owners[fetch.expert].empty(); };
  const auto available_end = std::stable_partition(fetches.begin(), fetches.end(), is_available);
  plan.unavailable.assign(available_end, fetches.end());
  std::sort(plan.unavailable.begin(), plan.unavailable.end());
  fetches.erase(available_end, fetches.end());
  if (fetches.empty()) return plan;

  // Those with little choice choose first.
  std::sort(fetches.begin(), fetches.end(), [&](const ExpertFetch& a, const ExpertFetch& b) {
    const size_t choices_a = owners[a.expert].size(), choices_b = owners[b.expert].size();
    return choices_a != choices_b ? choices_a < choices_b : a < b;
  });
  std::vector<int> received(held.size(), 0);
  for (const ExpertFetch& fetch : fetches) ++received[fetch.node];
  plan.received_max = *std::max_element(received.begin(), received.end());
  SourceChoice choice(fetches, owners, held.size());
  choice.choose(static_cast<size_t>(plan.received_max));
  plan.sent_max = static_cast<int>(choice.busiest_load());

  plan.rounds = std::max(plan.sent_max, plan.received_max);
  for (size_t i = 0; i < fetches.size(); ++i) {
    const int source = choice.source_of()[i];
    plan.transfers.push_back(
        {.source = source, .destination = fetches[i].node, .expert = fetches[i].expert});
  }
  Rounds rounds(plan.transfers, held.size(), plan.rounds);
  for (size_t i = 0; i < plan.transfers.size(); ++i) rounds.add(static_cast<int>(i));
  std::sort(plan.transfers.begin(), plan.transfers.end());
  return plan;
}

}  // namespace evermoe
