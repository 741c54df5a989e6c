// What a rank finds of its own state on the disk of its machine, and which of it all ranks can go
// on from.
//
// A rank's folder holds step-N (or step-N.tmp until the rank has been told that all ranks have it),
// with the rank's file and its part of the manifest. No rank sees another one's, so nothing is
// merged: a step can be used if every rank has it, from the same run of the same job in the same
// layout, and one of them has been told that all do. Such a step was durable everywhere when it was
// committed. A run goes from one resumption of the whole job to the next: what the next one makes
// of a step may have other bits, and a machine that was away then has those of the run before.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "checkpoint/format/manifest.h"
#include "env/files.h"

namespace evermoe {

// More are not looked at: the newest count.
inline constexpr int kLocalSavesMax = 16;

struct LocalSave {
  Step step{-1};
  // Of all that makes the saves of ranks fit together: job, run, world, topology, types, model and
  // data.
  Fingerprint origin;
  int64_t term = 0;           // the newest that the rank had been told of (write/folder_term.h)
  bool is_committed = false;  // the rank was told that all ranks have it
  friend bool operator==(const LocalSave&, const LocalSave&) = default;
};

// Of one rank's part of a manifest.
Fingerprint origin_of(const Manifest& part);

// As ranks tell each other.
inline constexpr size_t kLocalSaveNumbers = 5;
std::array<int64_t, kLocalSaveNumbers> to_numbers(const LocalSave& save);
LocalSave from_numbers(std::span<const int64_t> numbers);

// In the folder of `rank`, newest first; a committed one before another of its step. What cannot be
// read is none: a rank that has nothing says so, and another tier is taken.
std::vector<LocalSave> list_local_saves(Files& files, const std::string& directory, int rank);
// Its folder.
std::string path_of(const std::string& directory, const LocalSave& save);

// The saves that all ranks can go on from, newest first; is_committed is true in each. `told` has
// one list of every rank. `term` is that of the newest checkpoint in shared storage, 0 if there is
// none: what was saved under older ones is of a future that was given up while these machines were
// away. Pure.
std::vector<LocalSave> usable_local_saves(std::span<const std::vector<LocalSave>> told,
                                          int64_t term);

// The one that fits to `chosen`, of those that this rank has. REQUIRES: there is one.
LocalSave own_of(std::span<const LocalSave> own, const LocalSave& chosen);

// Whether what `part` has is in `checkpoint`, the same bits in the same shards.
bool is_part_of(const Manifest& part, const Manifest& checkpoint);

// Whether one shard of the manifest holds the whole range of the operator.
bool holds_range(const Manifest& manifest, const std::string& operator_name, int64_t flat_size,
                 FlatRange range);

}  // namespace evermoe
