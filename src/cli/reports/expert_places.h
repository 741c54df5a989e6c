// Where the experts of a checkpoint live, for people: of a job whose replicas follow the load.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experts/migration/expert_balance.h"

namespace evermoe {

// Of an MoE layer.
struct ExpertPlaces {
  int lanes = 0;                     // of its stage
  std::vector<int> replicas;         // by expert
  std::vector<std::vector<int>> on;  // by lane: the experts there
  double imbalance = 1;              // the busiest lane by the loads counted so far, over the mean
  // By the number of lanes that are lost at once, from 1: the probability that every expert is left
  // on another one (experts/placement/survival.h). Empty: too many ways to count.
  std::vector<double> survives;
};

// Layers that are not placed yet have no lanes.
std::vector<ExpertPlaces> expert_places(const ExpertBalance& balance);

// A line for each layer: "layer 1: replicas 2 1 1 3 on 2 lanes, ...".
std::string to_text(const std::vector<ExpertPlaces>& places);
nlohmann::ordered_json to_json_value(const std::vector<ExpertPlaces>& places);

}  // namespace evermoe
