// What a rank keeps in memory so that a stage can go back: the boundary messages it has sent,
// fingerprints of those it has received, the records of the job's commits, its own snapshots and
// the copies of its peers.
//
// Threads: any; each part has its own mutex.
#pragma once

#include <cstdint>

#include "protection/logs/boundary_log.h"
#include "protection/logs/record_log.h"
#include "protection/snapshots/snapshot_store.h"
#include "recovery/protocol/findings.h"

namespace evermoe {

struct RecoveryMemory {
  RecoveryMemory(int64_t log_bytes_max, int64_t snapshot_bytes_max)
      : log(log_bytes_max), store(snapshot_bytes_max) {}

  // The whole job goes back to a durable state: what is left of the old run must not be taken for
  // the new one.
  void clear_boundaries_and_snapshots() {
    store.clear();
    log.clear();
    received.clear();
  }
  // Nobody will go back further than the newest window that everybody has: who lacks the record
  // that says so gets it with the next view, before anything else.
  void free_before(Step window) {
    const Commit commit = verdict_commit(window);
    store.free_before(window);
    records.free_before(commit);
    log.free_before(Commit(commit.value + 1));
    received.free_before(Commit(commit.value + 1));
  }

  // Lanes change at `end`: windows since the newest complete one are cut off, and there is no room
  // for three.
  void free_cut_windows(Step complete, Step end) { store.free_between(complete, end); }

  // Everybody has come to the record of this evaluation's batch: whoever goes back takes it, and
  // nobody evaluates it again.
  void free_evaluated(Commit commit) {
    log.free(commit);
    received.free(commit);
  }

  BoundaryLog log;
  ReceivedBoundaries received;
  RecordLog records;
  SnapshotStore store;
};

}  // namespace evermoe
