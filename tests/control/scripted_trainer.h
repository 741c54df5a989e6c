// The hash model at the pace of a slow trainer, with durable checkpoints in a folder and with deeds
// to do: what tests of whole jobs put in the place of the torch trainer.
//
// OUT/script, if it is there, holds lines "START RANK STEP WHAT": before its step STEP the process
// of this rank that was started as number START (from 0; -1: each) does WHAT: die, crash, stop,
// stall, leave or fail. Step 0 is before it joins the others.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/clock.h"
#include "env/files.h"
#include "sim/hash/hash_trainer.h"

namespace evermoe {

class Deeds {
 public:
  Deeds(const std::string& out, Rank rank) {
    const std::string starts = absl::StrCat(out, "/starts.", rank.value);
    int64_t start = 0;
    std::ifstream(starts) >> start;
    std::ofstream(starts) << start + 1;
    std::ifstream lines(out + "/script");
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      int64_t when = 0, who = 0, step = 0;
      std::string what;
      if (!(words >> when >> who >> step >> what) || who != rank.value) continue;
      if (when == start || when == -1) deeds_[step] = what;
    }
  }

  // An error if that is the deed.
  absl::Status do_before(int64_t step) const {
    const auto at = deeds_.find(step);
    if (at == deeds_.end()) return absl::OkStatus();
    std::cerr << "about to " << at->second << std::endl;
    if (at->second == "die") ::raise(SIGKILL);
    if (at->second == "crash") std::abort();
    if (at->second == "stop") ::raise(SIGSTOP);
    while (at->second == "stall") ::pause();
    if (at->second == "leave") std::_Exit(0);
    if (at->second == "refuse") return InvalidInput("data.path: found nothing");
    if (at->second == "diverge") return Hopeless("training diverged");
    return at->second == "fail" ? Internal("the disk is full") : absl::OkStatus();
  }

 private:
  std::map<int64_t, std::string> deeds_;  // by step
};

// The hash model's, with files that outlive its process, and deeds. Ends early when somebody asks
// for it.
class ScriptedTrainer final : public StageTrainer {
 public:
  struct Options {
    std::string out;  // checkpoints are OUT/durable/STEP.RANK
    absl::Duration step_time;
    const std::atomic<bool>* asked_to_drain = nullptr;
  };
  // `disk` is the inner trainer's.
  ScriptedTrainer(HashTrainer& inner, SimulatedDisk& disk, Rank rank, int world_size,
                  Options options)
      : inner_(inner),
        disk_(disk),
        rank_(rank),
        world_size_(world_size),
        options_(std::move(options)),
        deeds_(options_.out, rank) {}

  absl::Status begin() const { return deeds_.do_before(0); }
  bool is_drained() const { return inner_.is_drained(); }
  // The newest state that all ranks have saved.
  Step newest_durable() {
    read_folder();
    return disk_.newest();
  }

  const std::vector<StageOperator>& operators() const override { return inner_.operators(); }
  void join_stage(View epoch) override { inner_.join_stage(epoch); }
  const Membership& membership() const override { return inner_.membership(); }
  void take_membership(const Membership& to) override { inner_.take_membership(to); }
  void rest_at(Step step, const Findings& verdict) override { inner_.rest_at(step, verdict); }
  absl::Status change_membership(const Membership& to, View view, RecordBytes& position) override {
    return inner_.change_membership(to, view, position);
  }
  absl::StatusOr<std::string> resume(Communicator& world) override {
    read_folder();
    return inner_.resume(world);
  }
  absl::Status restore_base(Step base) override {
    read_folder();
    return inner_.restore_base(base);
  }
  void forget_base() override { inner_.forget_base(); }
  void capture(int index, SnapshotKind kind, int64_t offset,
               std::span<std::byte> into) const override {
    inner_.capture(index, kind, offset, into);
  }
  void restore(int index, SnapshotKind kind, int64_t offset,
               std::span<const std::byte> from) override {
    inner_.restore(index, kind, offset, from);
  }
  absl::Status complete_restore(const std::vector<int>& indices) override {
    return inner_.complete_restore(indices);
  }
  Step step() const override { return inner_.step(); }
  RecordBytes position() const override { return inner_.position(); }
  absl::Status set_position(const RecordBytes& position) override {
    return inner_.set_position(position);
  }
  absl::StatusOr<Findings> train(const ActiveOperators& active, Boundary& boundary,
                                 const OnReduced& on_reduced) override {
    real_clock().sleep_until(real_clock().now() + options_.step_time);
    RETURN_IF_ERROR(deeds_.do_before(inner_.step().value + 1));
    if (*options_.asked_to_drain) inner_.drain();
    return inner_.train(active, boundary, on_reduced);
  }
  const ExpertLoads& expert_loads() const override { return inner_.expert_loads(); }
  absl::Status apply(const Findings& combined, const ActiveOperators& active,
                     const BeforeWrite& before_write) override {
    read_folder_to_publish();
    return inner_.apply(combined, active, before_write);
  }
  absl::Status apply_alone(const Findings& combined, const BeforeWrite& before_write) override {
    return inner_.apply_alone(combined, before_write);
  }
  bool is_evaluated(Step step) const override { return inner_.is_evaluated(step); }
  int64_t evaluation_batches() const override { return inner_.evaluation_batches(); }
  absl::StatusOr<Findings> evaluate(int64_t batch, Boundary& boundary) override {
    return inner_.evaluate(batch, boundary);
  }
  void apply_evaluation(const Findings& combined) override { inner_.apply_evaluation(combined); }
  bool is_saved(Step step) const override { return inner_.is_saved(step); }
  absl::Status save() override {
    RETURN_IF_ERROR(inner_.save());
    return write_folder();
  }
  bool is_finished() const override { return inner_.is_finished(); }
  absl::StatusOr<Findings> close() override {
    read_folder_to_publish();
    ASSIGN_OR_RETURN(Findings findings, inner_.close());
    RETURN_IF_ERROR(write_folder());
    return findings;
  }
  bool is_closed(const Findings& combined) override {
    read_folder_to_publish();
    return inner_.is_closed(combined);
  }

 private:
  std::string folder() const { return join_path(options_.out, "durable"); }

  absl::Status write_folder() {
    if (step() <= written_) return absl::OkStatus();
    RETURN_IF_ERROR(real_files().create_directories(folder()));
    const std::vector<std::byte>* const bytes = disk_.find(step(), rank_);
    if (bytes == nullptr) return absl::OkStatus();  // all have it already
    const std::string path = join_path(folder(), absl::StrCat(step().value, ".", rank_.value));
    RETURN_IF_ERROR(
        replace_file(real_files(), path,
                     std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size())));
    written_ = step();
    return absl::OkStatus();
  }

  // The first rank publishes what the others have written.
  void read_folder_to_publish() {
    if (rank_ == Rank(0)) read_folder();
  }

  // What all have written is there. Names of files that are being written have more parts.
  void read_folder() {
    const auto names = real_files().list(folder());
    if (!names.ok()) return;
    std::set<Step> written;
    for (const std::string& name : *names) {
      long long step = 0;
      int rank = 0, end = 0;
      if (std::sscanf(name.c_str(), "%lld.%d%n", &step, &rank, &end) != 2 ||
          end != std::ssize(name) || Step(step) <= disk_.newest())
        continue;
      const auto bytes = read_file(real_files(), join_path(folder(), name), 1 << 20);
      if (!bytes.ok()) continue;
      const auto* const first = reinterpret_cast<const std::byte*>(bytes->data());
      CHECK_OK(disk_.write(Step(step), Rank(rank), {first, first + bytes->size()}));
      written.insert(Step(step));
    }
    for (const Step step : written) {
      if (disk_.is_written_by_all(step, world_size_)) CHECK_OK(disk_.publish(step, world_size_));
    }
  }

  HashTrainer& inner_;
  SimulatedDisk& disk_;
  const Rank rank_;
  const int world_size_;
  const Options options_;
  const Deeds deeds_;
  Step written_{-1};
};

}  // namespace evermoe
