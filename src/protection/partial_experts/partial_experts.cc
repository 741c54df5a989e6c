#include "protection/partial_experts/partial_experts.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace evermoe {
namespace {

// The k of `candidates` with the least key, ties by the candidates' order.
std::vector<int> least(std::vector<int> candidates, int k, const std::vector<int64_t>& key) {
  CHECK(1 <= k && k <= static_cast<int>(candidates.size())) << k << " of " << candidates.size();
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](int a, int b) { return key[a] < key[b]; });
  candidates.resize(k);
  return candidates;
}

std::vector<int> rotated(std::span<const int> interleaved, int64_t begin) {
  std::vector<int> result(interleaved.begin(), interleaved.end());
  std::rotate(result.begin(), result.begin() + begin % static_cast<int64_t>(result.size()),
              result.end());
  return result;
}

// The selection of load-aware PEC while it is being made.
class LoadSelection {
 public:
  LoadSelection(const ExpertTable& unsaved, int k, std::span<const int> owner_of, int ranks)
      : unsaved_(unsaved),
        k_(k),
        owner_of_(owner_of),
        layers_(static_cast<int>(unsaved.size())),
        experts_(static_cast<int>(owner_of.size())),
        taken_(layers_, std::vector<bool>(experts_, false)),
        rank_left_(ranks, (layers_ * k + ranks - 1) / ranks) {
    result_.selection.resize(layers_);
    result_.capacity = rank_left_[0];
  }

  LossyLoadSelection make() && {
    take_by_load();
    for (int layer = 0; layer < layers_; ++layer) {
      while (size(layer) < k_) {
        if (exchange_for(layer)) {
          ++result_.repairs;
        } else {
          raise_capacity();
        }
      }
    }
    return std::move(result_);
  }

 private:
  // How the search came to a layer.
  struct Found {
    int from = -1;    // the layer that wants a place on a full rank
    int gained = -1;  // what it takes there
    int given = -1;   // what the layer come to gives up there
  };

  int size(int layer) const { return static_cast<int>(result_.selection[layer].size()); }

  void take(int layer, int expert) {
    taken_[layer][expert] = true;
    result_.selection[layer].push_back(expert);
    --rank_left_[owner_of_[expert]];
  }
  void give_up(int layer, int expert) {
    taken_[layer][expert] = false;
    std::erase(result_.selection[layer], expert);
    ++rank_left_[owner_of_[expert]];
  }
  void raise_capacity() {
    ++result_.capacity;
    for (int& left : rank_left_) ++left;
  }

  void take_by_load() {
    std::vector<std::tuple<int64_t, int, int>> by_load;  // (-tokens, layer, expert)
    for (int layer = 0; layer < layers_; ++layer) {
      for (int e = 0; e < experts_; ++e) by_load.push_back({-unsaved_[layer][e], layer, e});
    }
    std::sort(by_load.begin(), by_load.end());
    for (const auto& [load, layer, e] : by_load) {
      if (size(layer) < k_ && rank_left_[owner_of_[e]] > 0) take(layer, e);
    }
  }

  // What `layer` does not save, most unsaved tokens first.
  std::vector<int> others_by_load(int layer) const {
    std::vector<int> others;
    for (int e = 0; e < experts_; ++e) {
      if (!taken_[layer][e]) others.push_back(e);
    }
    std::stable_sort(others.begin(), others.end(),
                     [&](int a, int b) { return unsaved_[layer][a] > unsaved_[layer][b]; });
    return others;
  }

  // What `layer` saves on `rank` with the fewest unsaved tokens, -1 if nothing.
  int least_on(int layer, int rank) const {
    int least = -1;
    for (const int e : result_.selection[layer]) {
      if (owner_of_[e] == rank && (least < 0 || unsaved_[layer][e] < unsaved_[layer][least]))
        least = e;
    }
    return least;
  }

  // Breadth first over layers: a layer takes an expert on a full rank if another layer gives one up
  // there, which must then take one elsewhere, until one finds a rank with room. False if there is
  // no such chain.
  bool exchange_for(int first) {
    std::vector<Found> found(layers_);
    std::vector<bool> seen(layers_, false);
    std::deque<int> queue{first};
    seen[first] = true;
    while (!queue.empty()) {
      const int layer = queue.front();
      queue.pop_front();
      for (const int e : others_by_load(layer)) {
        if (rank_left_[owner_of_[e]] > 0) {
          apply(found, first, layer, e);
          return true;
        }
        for (int other = 0; other < layers_; ++other) {
          const int given = seen[other] ? -1 : least_on(other, owner_of_[e]);
          if (given < 0) continue;
          seen[other] = true;
          found[other] = {layer, e, given};
          queue.push_back(other);
        }
      }
    }
    return false;
  }

  // Walks the chain back from the layer that found room.
  void apply(const std::vector<Found>& found, int first, int layer, int expert) {
    while (layer != first) {
      const Found& step = found[layer];
      give_up(layer, step.given);
      take(layer, expert);
      layer = step.from;
      expert = step.gained;
    }
    take(layer, expert);
  }

  const ExpertTable& unsaved_;
  const int k_;
  const std::span<const int> owner_of_;
  const int layers_;
  const int experts_;
  std::vector<std::vector<bool>> taken_;
  std::vector<int> rank_left_;  // experts a rank can still save
  LossyLoadSelection result_;
};

}  // namespace

std::vector<int> interleaved_experts(std::span<const int> owner_of, int ranks) {
  std::vector<std::tuple<int, int, int>> keyed;  // (how many of the rank come before, rank, expert)
  std::vector<int> owned(ranks, 0);
  for (size_t e = 0; e < owner_of.size(); ++e) {
    CHECK(0 <= owner_of[e] && owner_of[e] < ranks) << "expert " << e << " on rank " << owner_of[e];
    keyed.push_back({owned[owner_of[e]]++, owner_of[e], static_cast<int>(e)});
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<int> order;
  for (const auto& key : keyed) order.push_back(std::get<2>(key));
  return order;
}

LossySelection lossy_sequential(int64_t cursor, int layers, int k,
                                std::span<const int> interleaved) {
  const int64_t experts = static_cast<int64_t>(interleaved.size());
  CHECK(1 <= k && k <= experts && cursor >= 0) << k << " of " << experts << ", cursor " << cursor;
  LossySelection selection(layers);
  for (int layer = 0; layer < layers; ++layer) {
    for (int i = 0; i < k; ++i) {
      selection[layer].push_back(
          interleaved[(cursor + static_cast<int64_t>(layer) * k + i) % experts]);
    }
  }
  return selection;
}

LossySelection lossy_oldest(const ExpertTable& last_saved, int k,
                            std::span<const int> interleaved) {
  LossySelection selection;
  for (size_t layer = 0; layer < last_saved.size(); ++layer) {
    selection.push_back(
        least(rotated(interleaved, static_cast<int64_t>(layer) * k), k, last_saved[layer]));
  }
  return selection;
}

LossyLoadSelection lossy_load_aware(const ExpertTable& unsaved, int k,
                                    std::span<const int> owner_of, int ranks) {
  CHECK(1 <= k && k <= static_cast<int>(owner_of.size()) && ranks >= 1);
  for (const auto& layer : unsaved) CHECK(layer.size() == owner_of.size());
  return LoadSelection(unsaved, k, owner_of, ranks).make();
}

LossyTwoLevelSelection lossy_two_level(const ExpertTable& last_snapshot,
                                       const ExpertTable& last_persist, int snapshot_k,
                                       int persist_k, std::span<const int> interleaved) {
  CHECK(last_snapshot.size() == last_persist.size());
  LossyTwoLevelSelection selection;
  for (size_t layer = 0; layer < last_snapshot.size(); ++layer) {
    const auto order = rotated(interleaved, static_cast<int64_t>(layer) * snapshot_k);
    selection.snapshot.push_back(least(order, snapshot_k, last_snapshot[layer]));
    // Ties of the stored images go by the interleaved order, not by the age of the snapshot.
    std::vector<int> candidates;
    for (const int e : order) {
      if (std::ranges::count(selection.snapshot.back(), e) > 0) candidates.push_back(e);
    }
    selection.persist.push_back(least(candidates, persist_k, last_persist[layer]));
  }
  return selection;
}

}  // namespace evermoe
