#include "sim/hash/hash_trainer.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "sim/hash/hash_mix.h"

namespace evermoe {
namespace {

// Of a micro-batch. Every stage adds one, made of what it passes on.
uint64_t loss_of(const HashPass::Graph& graph) { return graph.output & 0xffff; }

// Of Findings::minima.
constexpr size_t kDrain = 3;      // 0 where a rank was asked to stop
constexpr size_t kPublished = 4;  // of the first rank
constexpr size_t kLastSave = 5;   // negative, SavePace::last()

constexpr uint64_t kSaveIntervals = 5;  // that a rank may want

constexpr absl::Duration kCopyTime = absl::Microseconds(20);

class LateCopy final : public CopyUnderWay {
 public:
  explicit LateCopy(std::function<void()> copy) : copy_(std::move(copy)) {}
  void wait() override {
    std::exchange(copy_, [] {})();
  }

 private:
  std::function<void()> copy_;
};

}  // namespace

HashTrainer::HashTrainer(const Topology& topology, Transport& transport, SimulatedDisk& disk,
                         const HashModelOptions& options)
    : topology_(topology),
      stage_(topology.role_of(transport.rank()).stage),
      transport_(transport),
      disk_(disk),
      options_(options),
      membership_(topology),
      neighbours_(membership_, stage_) {
  lay_out();
  if (options_.experts_saved > 0) partial_.emplace(topology_, place_, options_, *model_, disk_);
  if (options_.restarts) restarts_.emplace(options_, transport_.rank(), *model_);
}

// ---- state

absl::StatusOr<std::string> HashTrainer::resume(Communicator& world) {
  int64_t newest[] = {disk_.newest().value};
  RETURN_IF_ERROR(world.all_reduce<int64_t>(newest, ReduceOp::kMin));
  const Step step(std::max<int64_t>(newest[0], 0));
  run_.view = view_;
  saved_ = agreed_ = step > Step(0) ? step.value : -1;
  prepared_ = published_ = refused_ = -1;
  RETURN_IF_ERROR(partial_ ? restart(world, step) : restore_base(step));
  return absl::StrCat(newest[0] < 0 ? "initial state" : "durable checkpoint of step ",
                      model_->position().step);
}

std::unique_ptr<CopyUnderWay> HashTrainer::begin_capture(int operator_index, SnapshotKind kind,
                                                         int64_t offset, std::span<std::byte> into,
                                                         const WrittenState&) const {
  const auto copy = [=, this] { capture(operator_index, kind, offset, into); };
  if (operator_index % 2 == 0) {
    return std::make_unique<LateCopy>([=, this] {
      disk_.rest(kCopyTime);
      copy();
    });
  }
  copy();
  return nullptr;
}

absl::Status HashTrainer::restart(Communicator& world, Step step) {
  is_drained_ = false;
  if (step == Step(0)) model_->initialise();
  RETURN_IF_ERROR(partial_->restart(world, view_, step));
  pace_.begin(step);
  return gather_all();
}

void HashTrainer::forget_base() {
  if (partial_) return;  // older files are needed, too
  if (transport_.rank() == Rank(0)) disk_.remove_before(disk_.newest());
}

absl::Status HashTrainer::restore_base(Step base) {
  is_drained_ = false;
  if (base > Step(0)) {
    RETURN_IF_ERROR(load(base));
  } else {
    model_->initialise();
    trained_on_.clear();
  }
  pace_.begin(step());
  return gather_all();
}

absl::Status HashTrainer::gather_all() {
  std::vector<int> all(model_->operators().size());
  std::iota(all.begin(), all.end(), 0);
  model_->cast_own();
  return gather(all);
}

absl::Status HashTrainer::gather(const std::vector<int>& operator_indices) {
  if (rests()) return absl::OkStatus();
  std::vector<int64_t> begins;
  for (int lane = 0; lane <= lanes(); ++lane)
    begins.push_back(lane * static_cast<int64_t>(sizeof(uint64_t)));
  for (const int i : operator_indices) {
    HashModel::Operator& op = model_->at(i);
    if (op.part == HashModel::Part::kExpert) continue;
    RETURN_IF_ERROR(
        stage_group_->all_gather(std::as_writable_bytes(std::span(op.compute)), begins));
  }
  return absl::OkStatus();
}

RecordBytes HashTrainer::position() const {
  const auto bytes = std::as_bytes(std::span(&model_->position(), 1));
  std::vector<int64_t> numbers = {pace_.last().value};
  std::ranges::copy(to_numbers(trained_on_), std::back_inserter(numbers));
  const auto more = std::as_bytes(std::span(numbers));
  RecordBytes position = {std::byte{is_drained_}};
  position.insert(position.end(), more.begin(), more.end());
  position.insert(position.end(), bytes.begin(), bytes.end());
  return position;
}

absl::Status HashTrainer::set_position(const RecordBytes& position) {
  HashModel::Position taken;
  const auto no_position = [] { return Corrupt("not a position"); };
  if (position.size() < sizeof(taken) + 1) return no_position();
  const size_t size = position.size() - sizeof(taken) - 1;
  std::vector<int64_t> numbers(size / sizeof(int64_t));
  if (size > 0) std::memcpy(numbers.data(), position.data() + 1, numbers.size() * sizeof(int64_t));
  if (numbers.empty() || size % sizeof(int64_t) > 0) return no_position();
  auto trained_on = trained_on_from(std::span(numbers).subspan(1));
  if (!trained_on) return no_position();
  trained_on_ = *std::move(trained_on);
  std::memcpy(&taken, position.data() + 1 + size, sizeof(taken));
  is_drained_ = position.front() != std::byte{0};
  model_->take_position(taken);
  pace_.begin(Step(numbers.front()));
  return absl::OkStatus();
}

Fingerprint HashTrainer::digest() const {
  const bool trains_all = partial_ || restarts_;  // and no file says so
  return fingerprint(trains_all ? model_->state()
                                : hash_file(membership_.resting(), trained_on_, *model_));
}

// ---- work

std::optional<int> HashTrainer::micro_batch_of(int round) const {
  const int index = round * lanes() + place_.lane;
  return index < options_.micro_batches ? std::optional(index) : std::nullopt;
}

void HashTrainer::expect(const RoundOperation& operation, Boundary& boundary) {
  const auto direction = operation.kind == RoundOperation::Kind::kForward
                             ? BoundaryDirection::kActivation
                             : BoundaryDirection::kGradient;
  const auto micro_batch = micro_batch_of(operation.round);
  if (micro_batch && neighbours_.has_sender(direction))
    neighbours_.expect(direction, *micro_batch, boundary);
}

// Shared operators add up over the lanes; experts have all their tokens on their lane already.
absl::Status HashTrainer::reduce_gradients(const ActiveOperators& active,
                                           const OnReduced& on_reduced) {
  for (size_t i = model_->operators().size(); i-- > 0;) {
    HashModel::Operator& op = model_->operators()[i];
    if (!active[i]) continue;
    if (op.part != HashModel::Part::kExpert) {
      int64_t sum[] = {static_cast<int64_t>(op.gradient)};
      RETURN_IF_ERROR(stage_group_->all_reduce<int64_t>(sum, ReduceOp::kSum));
      op.gradient = static_cast<uint64_t>(sum[0]);
    }
    on_reduced(static_cast<int>(i));
  }
  return absl::OkStatus();
}

void HashTrainer::count_choices(const HashPass::Graph& graph) {
  if (!graph.is_real) return;
  for (int layer = 0; layer < options_.layers_per_stage; ++layer) {
    ++expert_loads_.tokens[static_cast<size_t>(layer * options_.experts +
                                               graph.gate_choices[static_cast<size_t>(layer)])];
  }
}

absl::StatusOr<uint64_t> HashTrainer::run_rounds(const ActiveOperators& active,
                                                 Boundary& boundary) {
  std::deque<HashPass::Graph> held;
  uint64_t losses = 0;
  neighbours_.begin();
  for (size_t i = 0; i < order_.size(); ++i) {
    const RoundOperation& operation = order_[i];
    if (i + 1 < order_.size()) expect(order_[i + 1], boundary);
    const auto micro_batch = micro_batch_of(operation.round);
    if (operation.kind == RoundOperation::Kind::kForward) {
      fault_point("step/forward");
      const uint64_t sample =
          mix(options_.seed, model_->position().samples + micro_batch.value_or(0));
      ASSIGN_OR_RETURN(HashPass::Graph graph, pass_->forward(sample, micro_batch, boundary));
      if (graph.is_real) losses += loss_of(graph);
      count_choices(graph);
      held.push_back(std::move(graph));
    } else {
      fault_point("step/backward");
      RETURN_IF_ERROR(pass_->backward(held.front(), micro_batch, active, boundary));
      held.pop_front();
    }
  }
  return losses;
}

absl::StatusOr<Findings> HashTrainer::train(const ActiveOperators& active, Boundary& boundary,
                                            const OnReduced& on_reduced) {
  if (restarts_ && restarts_->arrive()) {
    model_->cast_own();
    disk_.partial().note_lost(transport_.rank(), restarts_->lost());
  }
  model_->clear_gradients();
  expert_loads_.tokens.assign(static_cast<size_t>(options_.layers_per_stage * options_.experts), 0);
  if (rests()) return findings(0, 0);
  ASSIGN_OR_RETURN(const uint64_t losses, run_rounds(active, boundary));
  fault_point("step/accumulated");
  RETURN_IF_ERROR(reduce_gradients(active, on_reduced));
  RETURN_IF_ERROR(stage_group_->all_reduce<int64_t>(expert_loads_.tokens, ReduceOp::kSum));
  expert_loads_.probability.assign(expert_loads_.tokens.begin(), expert_loads_.tokens.end());
  double gradients = 0;
  for (const HashModel::Operator& op : model_->operators()) {
    if (op.is_mine) gradients += static_cast<double>(mix(op.gradient) & 0xffffff);
  }
  return findings(gradients, losses);
}

Findings HashTrainer::findings(double gradients, uint64_t losses) const {
  const auto rank = static_cast<uint64_t>(transport_.rank().value);
  const auto step = static_cast<uint64_t>(model_->position().step);
  const auto interval = static_cast<int64_t>(1 + mix(options_.seed, rank, step) % kSaveIntervals);
  return {{gradients, static_cast<double>(losses)},
          {std::max(told_save(), agreed_), -interval, -refused_, is_drain_wanted_ ? 0 : 1,
           rank == 0 ? published_ : std::numeric_limits<int64_t>::max(), -pace_.last().value}};
}

bool HashTrainer::is_drain(const Findings& combined) {
  return combined.minima.size() > kDrain && combined.minima[kDrain] == 0;
}

int64_t HashTrainer::told_save() const {
  const int64_t step = model_->position().step;
  if (!partial_ || is_finished()) return prepared_;
  const uint64_t late = mix(options_.seed, 0x5a7e, static_cast<uint64_t>(prepared_)) % 3;
  return step >= prepared_ + static_cast<int64_t>(late) ? prepared_ : -1;
}

absl::Status HashTrainer::apply(const Findings& combined, const ActiveOperators& active,
                                const BeforeWrite& before_write) {
  ASSIGN_OR_RETURN(const std::vector<int> written, update(combined, active, before_write));
  return gather(written);
}

absl::Status HashTrainer::apply_alone(const Findings& combined, const BeforeWrite& before_write) {
  return update(combined, ActiveOperators(model_->operators().size(), true), before_write).status();
}

absl::StatusOr<std::vector<int>> HashTrainer::update(const Findings& combined,
                                                     const ActiveOperators& active,
                                                     const BeforeWrite& before_write) {
  const auto norm = static_cast<uint64_t>(combined.sums[0]);
  const bool skipped =
      options_.skip_one_in > 0 && norm % static_cast<uint64_t>(options_.skip_one_in) == 0;
  is_drained_ = is_drained_ || is_drain(combined);
  HashModel::Position& position = model_->position();
  note_step(step(), membership_.lanes(), trained_on_);
  ++position.step;
  position.samples += options_.micro_batches;
  pace_.on_verdict(Step(position.step), -combined.minima[1], Step(-combined.minima[kLastSave]));
  position.history = mix(position.history, norm, static_cast<uint64_t>(combined.sums[1]));
  if (partial_) partial_->on_verdict(Step(combined.minima[kPublished]), Step(-combined.minima[2]));
  std::vector<int> written;
  if (skipped) return written;
  note_saved_by_all(combined.minima[0]);
  if (partial_ && !is_killed()) save_waiting();
  if (partial_) partial_->on_update(expert_loads_.tokens);
  if (restarts_) restarts_->on_update(expert_loads_.tokens);
  ++position.updates;
  for (int i = 0; i < std::ssize(model_->operators()); ++i) {
    if (!active[static_cast<size_t>(i)]) continue;
    written.push_back(i);
    if (!model_->at(i).is_mine) continue;
    RETURN_IF_ERROR(before_write(i));
    model_->update(i);
  }
  return written;
}

bool HashTrainer::is_evaluated(Step step) const {
  return options_.evaluate_every > 0 && step.value % options_.evaluate_every == 0;
}

absl::StatusOr<Findings> HashTrainer::evaluate(int64_t batch, Boundary& boundary) {
  if (rests()) return findings(0, 0);
  uint64_t losses = 0;
  for (int round = 0; round < round_count(lanes(), options_.micro_batches); ++round) {
    const auto micro_batch = micro_batch_of(round);
    const uint64_t sample =
        mix(options_.seed, 0xe7a1, batch * options_.micro_batches + micro_batch.value_or(0));
    ASSIGN_OR_RETURN(const HashPass::Graph graph, pass_->forward(sample, micro_batch, boundary));
    if (graph.is_real) losses += loss_of(graph);
  }
  return findings(0, losses);
}

void HashTrainer::apply_evaluation(const Findings& combined) {
  model_->position().validation =
      mix(model_->position().validation, static_cast<uint64_t>(combined.sums[1]));
}

bool HashTrainer::is_saved(Step step) const {
  if (options_.tunes_saves) return is_finished() || pace_.is_due(step);
  const bool is_due = options_.save_every > 0 && step.value % options_.save_every == 0;
  return is_finished() || is_due;
}

bool HashTrainer::is_killed() {
  return !transport_
              .wait(transport_.start_send(transport_.rank(),
                                          {View(~uint32_t{0}), kStageGroups.last, 1}, {}),
                    absl::ZeroDuration())
              .ok();
}

absl::Status HashTrainer::save() {
  // What all have may be being published: it must not change.
  if (step().value <= std::max(saved_, agreed_)) return absl::OkStatus();
  // A process that was killed meanwhile writes nothing.
  if (is_killed()) return Cancelled("killed");
  if (partial_ && !is_finished()) {
    partial_->take();
    save_waiting();
    return absl::OkStatus();
  }
  // A failed save is not a failed step: the next one may succeed.
  const absl::Status written =
      partial_ ? partial_->save_whole()
               : disk_.write(step(), transport_.rank(),
                             hash_file(membership_.resting(), trained_on_, *model_));
  if (!written.ok()) refused_ = step().value;
  if (written.ok()) saved_ = prepared_ = step().value;
  return absl::OkStatus();
}

void HashTrainer::save_waiting() {
  const Step step = partial_->waiting();
  const absl::StatusOr<bool> saved = partial_->begin();
  if (!saved.ok()) refused_ = step.value;
  if (saved.ok() && *saved) saved_ = prepared_ = step.value;
}

void HashTrainer::note_saved_by_all(int64_t step) {
  if (step <= agreed_) return;
  agreed_ = step;
  publish();
}

void HashTrainer::publish() {
  if (transport_.rank() != Rank(0) || published_ >= agreed_ || is_killed()) return;
  if (partial_ && !partial_->may_write()) return;
  if (disk_.publish(Step(agreed_), topology_.world_size()).ok()) published_ = agreed_;
}

// As the real trainer does: without the last state there is no end.
absl::StatusOr<Findings> HashTrainer::close() {
  const int64_t last = step().value;
  RETURN_IF_ERROR(save());
  if (agreed_ >= last) publish();
  const bool is_behind = std::max(saved_, agreed_) < last ||
                         (transport_.rank() == Rank(0) && agreed_ >= last && published_ < last);
  if (is_behind) disk_.rest();
  return findings(0, 0);
}

bool HashTrainer::is_closed(const Findings& combined) {
  note_saved_by_all(combined.minima[0]);
  return combined.minima[kPublished] >= step().value;
}

}  // namespace evermoe
