// For tests: a trainer whose arithmetic one can do in one's head, and which says how it was called.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

// Every operator is a number, and step s adds s to it: its gradient. Its stage has no neighbours.
class TallyTrainer : public StageTrainer {
 public:
  struct Options {
    int operators = 3;
    int64_t steps = 6;
    int64_t evaluate_every = 0;  // steps; 0: never
    int64_t evaluation_batches = 1;
    int64_t save_every = 0;
    bool is_on_device = true;  // what is captured comes beside the thread that asks for it
  };
  explicit TallyTrainer(const Options& options)
      : options_(options), masters(static_cast<size_t>(options.operators)) {
    for (int i = 0; i < options.operators; ++i) {
      operators_.push_back(
          {.name = absl::StrCat("operator.", i), .bytes = {16, 8, 8}, .whole = {16, 8, 8}});
    }
    compute = gradients = masters;
  }

  const std::vector<StageOperator>& operators() const override { return operators_; }
  void join_stage(View epoch) override { called("join", epoch.value); }
  // A role of its own, which always trains.
  const Membership& membership() const override { return membership_; }
  void take_membership(const Membership& membership) override { membership_ = membership; }
  void rest_at(Step step, const Findings&) override { step_ = step; }
  absl::Status change_membership(const Membership& to, View, RecordBytes&) override {
    called("lanes", std::ssize(to.resting()));
    membership_ = to;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> resume(Communicator&) override {
    called("resume", 0);
    RETURN_IF_ERROR(restore_base(Step(0)));
    return std::string("the beginning");
  }
  absl::Status restore_base(Step base) override {
    if (!base_damage.ok()) return base_damage;
    step_ = base;
    masters.assign(masters.size(), 0);
    compute = masters;
    return absl::OkStatus();
  }
  void forget_base() override { base_forgotten = std::min(base_forgotten, step_); }
  void capture(int index, SnapshotKind kind, int64_t offset,
               std::span<std::byte> into) const override {
    const int64_t full[] = {masters[static_cast<size_t>(index)],
                            -masters[static_cast<size_t>(index)]};
    const int64_t* const from = kind == SnapshotKind::kFull ? full
                                : kind == SnapshotKind::kComputeOnly
                                    ? &compute[static_cast<size_t>(index)]
                                    : &gradients[static_cast<size_t>(index)];
    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(from) + offset, into.size());
  }
  // Reads when it is waited for.
  std::unique_ptr<CopyUnderWay> begin_capture(int index, SnapshotKind kind, int64_t offset,
                                              std::span<std::byte> into,
                                              const WrittenState&) const override {
    class Late final : public CopyUnderWay {
     public:
      explicit Late(std::function<void()> copy) : copy_(std::move(copy)) {}
      void wait() override { copy_(); }

     private:
      const std::function<void()> copy_;
    };
    if (!options_.is_on_device) {
      capture(index, kind, offset, into);
      return nullptr;
    }
    return std::make_unique<Late>([=, this] {
      if (before_copy) before_copy();
      capture(index, kind, offset, into);
    });
  }
  void restore(int index, SnapshotKind kind, int64_t offset,
               std::span<const std::byte> from) override {
    const auto at = static_cast<size_t>(index);
    int64_t& into = kind == SnapshotKind::kFull          ? masters[at]
                    : kind == SnapshotKind::kComputeOnly ? compute[at]
                                                         : gradients[at];
    if (offset == 0 && from.size() >= 8) std::memcpy(&into, from.data(), 8);
    if (kind == SnapshotKind::kGradients) return;
    if (kind == SnapshotKind::kFull)
      compute[at] = masters[at];
    else
      masters[at] = -1;  // stale values must not help
  }
  absl::Status complete_restore(const std::vector<int>& indices) override {
    called("restored", std::ssize(indices));
    return absl::OkStatus();
  }
  Step step() const override { return step_; }
  RecordBytes position() const override {
    const auto bytes = std::as_bytes(std::span(&step_.value, 1));
    return {bytes.begin(), bytes.end()};
  }
  absl::Status set_position(const RecordBytes& position) override {
    if (position.size() != sizeof(step_.value)) return Corrupt("not a position");
    std::memcpy(&step_.value, position.data(), position.size());
    return absl::OkStatus();
  }
  absl::StatusOr<Findings> train(const ActiveOperators&, Boundary& boundary,
                                 const OnReduced& on_reduced) override {
    called("train", step_.value + 1);
    if (in_train) RETURN_IF_ERROR(in_train(Step(step_.value + 1), boundary));
    gradients.assign(gradients.size(), step_.value + 1);
    for (int i = static_cast<int>(gradients.size()); i-- > 0;) on_reduced(i);
    return Findings{{1}, {0}};
  }
  const ExpertLoads& expert_loads() const override { return loads_; }
  absl::Status apply(const Findings& combined, const ActiveOperators& active,
                     const BeforeWrite& before_write) override {
    step_ = Step(step_.value + 1);
    for (size_t i = 0; i < masters.size(); ++i) {
      if (!active[i]) continue;
      RETURN_IF_ERROR(before_write(static_cast<int>(i)));
      compute[i] = masters[i] += gradients[i] * static_cast<int64_t>(combined.sums[0]);
    }
    return absl::OkStatus();
  }
  absl::Status apply_alone(const Findings& combined, const BeforeWrite& before_write) override {
    called("update", step_.value + 1);
    return apply(combined, ActiveOperators(masters.size(), true), before_write);
  }
  bool is_evaluated(Step step) const override { return is_due(step, options_.evaluate_every); }
  int64_t evaluation_batches() const override { return options_.evaluation_batches; }
  absl::StatusOr<Findings> evaluate(int64_t batch, Boundary&) override {
    called("evaluate", 10 * step_.value + batch);
    return Findings{{2}, {0}};
  }
  void apply_evaluation(const Findings& combined) override {
    called("evaluated", static_cast<int64_t>(combined.sums[0]));
  }
  bool is_saved(Step step) const override { return is_due(step, options_.save_every); }
  absl::Status save() override {
    called("save", step_.value);
    return absl::OkStatus();
  }
  bool is_finished() const override { return step_.value >= options_.steps; }
  absl::StatusOr<Findings> close() override {
    called("close", step_.value);
    return Findings{{0}, {1}};
  }
  bool is_closed(const Findings& combined) override { return combined.minima[0] == 1; }

  // What every operator is after `step` steps in a job of so many ranks.
  static int64_t after(int64_t step, int64_t ranks) { return ranks * step * (step + 1) / 2; }

 private:
  void called(const std::string& what, int64_t number) {
    calls.push_back(absl::StrCat(what, " ", number));
  }
  static bool is_due(Step step, int64_t every) { return every > 0 && step.value % every == 0; }

  const Options options_;
  std::vector<StageOperator> operators_;
  Membership membership_{Topology({1}, 1)};
  ExpertLoads loads_;
  Step step_{0};

 public:
  std::vector<int64_t> masters, compute, gradients;
  std::vector<std::string> calls;
  std::function<absl::Status(Step, Boundary&)> in_train;
  std::function<void()> before_copy;  // service thread
  absl::Status base_damage;           // what restore_base() meets
  Step base_forgotten{INT64_MAX};     // the first time
};

}  // namespace evermoe
