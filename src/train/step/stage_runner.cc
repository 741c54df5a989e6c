#include "train/step/stage_runner.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/fault_point.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

// Without a trace in the graph.
void corrupt(const at::Tensor& result) {
  result.variable_data().view(-1).narrow(0, 0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

StageRunner::StageRunner(const TrainConfig& train, const Membership& membership, Role role,
                         const BatchReader& batches, StageModel& model, OriginWatch* watch)
    : train_(train),
      membership_(membership),
      role_(role),
      batches_(batches),
      model_(model),
      watch_(watch),
      order_([&] {
        const Topology& lanes = membership.lanes();
        std::vector<int> widths;
        for (int s = 0; s < lanes.stages(); ++s) widths.push_back(lanes.lanes(s));
        return pipeline_schedule(widths, static_cast<int>(train.micro_batches))[role.stage];
      }()),
      non_finite_(model.shape()) {}

std::optional<MicroBatch> StageRunner::micro_batch_of(int round, int64_t micro_batches) const {
  const int64_t index =
      static_cast<int64_t>(round) * membership_.lanes().lanes(role_.stage) + role_.lane;
  if (index >= micro_batches) return std::nullopt;
  return MicroBatch(static_cast<int32_t>(index));
}

MicroBatchTokens StageRunner::tokens_of(Phase phase, Step step, MicroBatch micro_batch) const {
  if (!first() && !last()) return {};
  return phase == Phase::kTraining ? batches_.training(step, micro_batch, quarantined_)
                                   : batches_.validation(micro_batch);
}

int64_t StageRunner::sequences_of(Phase phase, MicroBatch micro_batch) const {
  return phase == Phase::kTraining ? train_.micro_batch_size
                                   : batches_.evaluation().sequences_of(micro_batch);
}

Rank StageRunner::peer(int stage, MicroBatch micro_batch) const {
  return membership_.rank_at({stage, micro_batch.value % membership_.lanes().lanes(stage)});
}

// Sends are not waited for: a stage must never wait for another to take its results, that is what
// keeps the schedule free of deadlock.
void StageRunner::send(int stage, BoundaryDirection direction, MicroBatch micro_batch,
                       const at::Tensor& tensor, Boundary& boundary) const {
  // Nobody writes to it any more, so the message may keep it.
  const auto owner = std::make_shared<const at::Tensor>(tensor.detach().contiguous().cpu());
  throw_if_error(boundary.send(peer(stage, micro_batch), direction, micro_batch,
                               {HostReadable(*owner).bytes(), owner}));
}

std::shared_ptr<StageRunner::Landing> StageRunner::new_landing(int64_t sequences) const {
  return std::make_shared<Landing>(model_.new_boundary(sequences));
}

void StageRunner::expect(const RoundOperation& operation, Boundary& boundary) {
  const bool is_forward = operation.kind == RoundOperation::Kind::kForward;
  const std::optional<MicroBatch> micro_batch =
      micro_batch_of(operation.round, train_.micro_batches);
  if (!micro_batch || (is_forward ? first() : last())) return;
  const auto direction = is_forward ? BoundaryDirection::kActivation : BoundaryDirection::kGradient;
  const std::shared_ptr<Landing> landing = new_landing(train_.micro_batch_size);
  expected_[{direction, *micro_batch}] = landing;
  const Rank from = peer(role_.stage + (is_forward ? -1 : 1), *micro_batch);
  boundary.expect(from, direction, *micro_batch, landing->into.bytes(), landing);
}

at::Tensor StageRunner::receive(int stage, BoundaryDirection direction, MicroBatch micro_batch,
                                int64_t sequences, Boundary& boundary) {
  const auto expected = expected_.extract({direction, micro_batch});
  const std::shared_ptr<Landing> landing = expected ? expected.mapped() : new_landing(sequences);
  throw_if_error(
      boundary.receive(peer(stage, micro_batch), direction, micro_batch, landing->into.bytes()));
  landing->into.commit();
  return landing->tensor;
}

MicroBatchGraph StageRunner::forward(Phase phase, Step step, std::optional<MicroBatch> micro_batch,
                                     double scale, bool probes, Boundary& boundary,
                                     int64_t first_number, const GradientsAdded& added) {
  if (!micro_batch) return model_.forward(0, {}, {}, {}, scale, {}, nullptr, added);
  const FiniteProbe probe(non_finite_, *micro_batch);
  const MicroBatch number(static_cast<int32_t>(first_number + micro_batch->value));
  const MicroBatchTokens tokens = tokens_of(phase, step, number);
  const int64_t sequences = sequences_of(phase, number);
  at::Tensor input;
  if (!first())
    input =
        receive(role_.stage - 1, BoundaryDirection::kActivation, *micro_batch, sequences, boundary);
  const TokenPlace place{train_.seed, phase == Phase::kTraining ? step : Step(-1), number};
  MicroBatchGraph graph = model_.forward(sequences, tokens.inputs, input, tokens.targets, scale,
                                         place, probes ? &probe : nullptr, added);
  if (phase == Phase::kTraining) {
    if (last() && is_poisoned(step, *micro_batch)) corrupt(graph.output);
    corrupt_if_asked(graph.output);
    if (watch_ != nullptr) {
      watch_->make(graph.output, watch_->receive(input), NonFinitePhase::kForward,
                   micro_batch->value, last_operator());
    }
  }
  if (!last())
    send(role_.stage + 1, BoundaryDirection::kActivation, *micro_batch, graph.output, boundary);
  return graph;
}

void StageRunner::backward(std::optional<MicroBatch> micro_batch, MicroBatchGraph graph,
                           Boundary& boundary) {
  if (!micro_batch) {
    model_.backward(std::move(graph), {});
    return;
  }
  at::Tensor output_gradient;
  if (!last()) {
    output_gradient = receive(role_.stage + 1, BoundaryDirection::kGradient, *micro_batch,
                              train_.micro_batch_size, boundary);
  }
  const bool is_of_finite = watch_ == nullptr || watch_->receive(output_gradient);
  const at::Tensor input_gradient = model_.backward(std::move(graph), output_gradient);
  corrupt_if_asked(first() ? model_.operators().front()->gradient() : input_gradient);
  if (watch_ != nullptr) {
    watch_->make(input_gradient, is_of_finite, NonFinitePhase::kBackward, micro_batch->value,
                 first_operator());
  }
  if (!first())
    send(role_.stage - 1, BoundaryDirection::kGradient, *micro_batch, input_gradient, boundary);
}

void StageRunner::corrupt_if_asked(const at::Tensor& result) {
  if (std::exchange(corrupts_next_, false)) corrupt(result);
}

bool StageRunner::is_poisoned(Step step, MicroBatch micro_batch) const {
  if (poisoned_.empty()) return false;
  const auto windows = batches_.training_windows(step, micro_batch, quarantined_);
  return std::ranges::any_of(windows, [&](int64_t window) {
    const int64_t begin = batches_.begin_of(window), end = begin + batches_.window_tokens();
    return std::ranges::any_of(
        poisoned_, [&](const auto& range) { return range.first < end && begin < range.second; });
  });
}

StepFindings StageRunner::run_step(const TrainingPosition& position, bool probes,
                                   Boundary& boundary, const GradientsAdded& added) {
  const Step step = position.step;
  quarantined_ = position.quarantined_windows;
  StepFindings findings;
  non_finite_.clear();
  expert_loads_ = {};
  std::deque<MicroBatchGraph> held;
  std::vector<Numbers> numbers;
  const double scale = position.loss_scale / static_cast<double>(train_.micro_batches);
  expected_.clear();
  for (size_t i = 0; i < order_.size(); ++i) {
    const RoundOperation& operation = order_[i];
    if (i + 1 < order_.size()) expect(order_[i + 1], boundary);
    const std::optional<MicroBatch> micro_batch =
        micro_batch_of(operation.round, train_.micro_batches);
    if (operation.kind == RoundOperation::Kind::kForward) {
      fault_point("step/forward");
      const bool is_last = operation.round == order_.back().round;
      held.push_back(forward(Phase::kTraining, step, micro_batch, scale, probes, boundary,
                             /*first_number=*/0, is_last ? added : nullptr));
      numbers.push_back(numbers_of(micro_batch, held.back()));
    } else {
      fault_point("step/backward");
      MicroBatchGraph graph = std::move(held.front());
      held.pop_front();
      backward(micro_batch, std::move(graph), boundary);
    }
  }
  for (const Numbers& one : numbers) read(one, findings);
  findings.non_finite = non_finite_.first();
  return findings;
}

StageRunner::Numbers StageRunner::numbers_of(std::optional<MicroBatch> micro_batch,
                                             const MicroBatchGraph& graph) const {
  Numbers numbers{micro_batch, {}, {}, graph.gates, graph.loads, graph.probabilities};
  if (graph.present && last()) numbers.loss = graph.output.detach();
  if (graph.auxiliary_loss.defined()) numbers.auxiliary_loss = graph.auxiliary_loss.detach();
  return numbers;
}

void StageRunner::read(const Numbers& numbers, StepFindings& findings) {
  const double imbalance = read_loads(numbers);
  if (!numbers.micro_batch) return;
  findings.load_imbalance_sum += imbalance;
  findings.gate_count += static_cast<double>(numbers.gates);
  if (numbers.auxiliary_loss.defined())
    findings.auxiliary_loss_sum += numbers.auxiliary_loss.item<double>();
  if (!last()) return;
  const double loss = numbers.loss.item<double>();
  if (!std::isfinite(loss))
    non_finite_.add(NonFinitePhase::kForward, numbers.micro_batch->value, "head");
  findings.loss_sum += loss;
  findings.tokens += static_cast<double>(train_.micro_batch_size * model_.shape().sequence_length);
}

double StageRunner::read_loads(const Numbers& numbers) {
  if (numbers.loads.empty()) return 0;
  const at::Tensor loads = at::cat(numbers.loads).cpu(),
                   probabilities = at::cat(numbers.probabilities).cpu();
  const std::span<const int64_t> tokens = host_values<int64_t>(loads);
  const std::span<const double> probability = host_values<double>(probabilities);
  // Of a lane without micro-batches zeros are added, so that it has as many.
  expert_loads_.tokens.resize(tokens.size());
  expert_loads_.probability.resize(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    expert_loads_.tokens[i] += tokens[i];
    expert_loads_.probability[i] += probability[i];
  }
  double imbalance = 0;
  const size_t experts = tokens.size() / numbers.loads.size();
  for (size_t begin = 0; begin < tokens.size(); begin += experts) {
    const auto of_gate = tokens.subspan(begin, experts);
    const int64_t choices = std::accumulate(of_gate.begin(), of_gate.end(), int64_t{0});
    const auto largest = static_cast<double>(*std::ranges::max_element(of_gate));
    if (choices > 0)
      imbalance += largest * static_cast<double>(experts) / static_cast<double>(choices);
  }
  return imbalance;
}

StepFindings StageRunner::run_validation(int64_t first_number, int64_t micro_batches,
                                         Boundary& boundary) {
  const at::NoGradGuard no_grad;
  expected_.clear();
  StepFindings findings;
  const int rounds =
      round_count(membership_.lanes().lanes(role_.stage), static_cast<int>(micro_batches));
  for (int round = 0; round < rounds; ++round) {
    const std::optional<MicroBatch> micro_batch = micro_batch_of(round, micro_batches);
    const MicroBatchGraph graph = forward(Phase::kValidation, Step(0), micro_batch, /*scale=*/1,
                                          /*probes=*/false, boundary, first_number);
    if (!micro_batch || !last()) continue;
    const MicroBatch number(static_cast<int32_t>(first_number + micro_batch->value));
    const auto tokens = static_cast<double>(batches_.evaluation().targets_of(number));
    findings.loss_sum += graph.output.item<double>() * tokens;
    findings.tokens += tokens;
    findings.hits += static_cast<double>(graph.hits);
  }
  return findings;
}

}  // namespace evermoe
