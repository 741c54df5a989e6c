// A micro-batch's way through one stage of the hash model, forwards and back.
//
// Every value is folded with every input that should reach it: weights, gate choices, what experts
// on other lanes answer, what other stages send.
//
// Threads: training thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "parallel/topology.h"
#include "sim/hash/hash_boundary.h"
#include "sim/hash/hash_model.h"

namespace evermoe {

class HashPass {
 public:
  // What the forward of a micro-batch leaves for its backward.
  struct Graph {
    bool is_real = false;
    std::vector<uint64_t> layer_inputs;
    std::vector<int> gate_choices;
    uint64_t output = 0;
  };

  // All but the options outlive it.
  HashPass(const Topology& topology, Role role, const HashModelOptions& options, HashModel& model,
           HashBoundary& neighbours, Communicator& stage_group);

  // `sample`: what the first stage reads. Without a micro-batch this lane has none in the round and
  // only serves its experts to the others.
  absl::StatusOr<Graph> forward(uint64_t sample, std::optional<int> micro_batch,
                                Boundary& boundary);
  absl::Status backward(const Graph& graph, std::optional<int> micro_batch,
                        const ActiveOperators& active, Boundary& boundary);

 private:
  using Expert = std::function<uint64_t(int expert, uint64_t token)>;

  absl::StatusOr<uint64_t> forward_layer(int layer, uint64_t value, Graph& graph);
  // Returns the gradient of the layer's input.
  absl::StatusOr<uint64_t> backward_layer(int layer, uint64_t gradient, const Graph& graph,
                                          const ActiveOperators& active);
  // Sends `value` to the expert of the layer that the gate chose, if it is real, and returns the
  // answer. `run` is what this lane's experts do with the tokens that come.
  absl::StatusOr<uint64_t> ask_expert(int layer, int choice, uint64_t value, bool is_real,
                                      const Expert& run);
  // Sends one word to every lane and gets one from each.
  absl::StatusOr<std::vector<uint64_t>> exchange(const std::vector<uint64_t>& words);

  const Role role_;
  const int lanes_;
  const int layers_;
  const int experts_;
  const bool is_last_;
  HashModel& model_;
  HashBoundary& neighbours_;
  Communicator& stage_group_;
};

}  // namespace evermoe
