// How large a simulated job is and how it is set up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/simulated/simulated_network.h"
#include "recovery/member/member.h"
#include "sim/control_plane.h"
#include "sim/hash/hash_trainer.h"

namespace evermoe {

struct SimulatedShape {
  std::vector<int> lanes = {2, 2};  // of each stage
  int nodes = 4;
  int spares = 1;
  int standbys = 0;
  int copies = 1;
  StrategyKind strategy = StrategyKind::kSparse;
  int window = 3;                // slots
  int period = 0;                // 0: as the window
  bool changes_windows = false;  // ranks want other windows all the time
  OrderingOptions ordering;
  bool restart_all_allowed = true;
  ElasticOptions elastic;
  StragglerOptions stragglers;
  ExpectedMove expected_move{.preparation = absl::Milliseconds(20), .pause = absl::Milliseconds(5)};
  ProbeOptions probes{.pause = absl::Milliseconds(25),
                      .pair_pause = absl::Milliseconds(50),
                      .bulk_pauses = 20,
                      .bulk_bytes = 1024,
                      .answer_max = absl::Milliseconds(500),
                      .silent_pause = absl::Seconds(6)};
  absl::Duration computing = absl::ZeroDuration();  // a step, apart from messages
  double copy_bytes_per_second = 1e6;               // small: captures last as long as steps
  int64_t log_bytes_max = 64 << 10;
  int64_t snapshot_bytes_max = 256 << 10;
  // The trainer of a process and the digest of its final state; empty: the hash model.
  std::function<std::unique_ptr<StageTrainer>(const Topology&, Transport&)> make_trainer;
  std::function<std::string(StageTrainer&)> digest_of;
  HashModelOptions model;
  int64_t chunk_bytes_max = 16;  // a shard of the hash model has several chunks
  SimulatedNetworkOptions network;
  ControlNetworkOptions control;
  Node late_node{-1};  // ControlPlaneOptions
  absl::Duration late = absl::ZeroDuration();
  bool ends_lost_nodes = true;  // ControlPlaneOptions
  bool has_store = false;       // likewise: every node may host
  bool lines_may_break = true;  // RelayOptions::return_max: over a network
  bool asks_partners = false;   // machines ask whether they reach each other
};

// Times are a tenth of what they are in production, or less.
ControlPlaneOptions plane_options(const SimulatedShape& shape);
MemberOptions member_options(const SimulatedShape& shape);

}  // namespace evermoe
