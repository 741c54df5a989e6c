#include "train/stage_runner.h"

#include "base/error.h"
#include "base/fault_point.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

// Names of boundary messages: unique among all that can be on their way between two ranks at once.
uint32_t message_name(uint32_t phase, uint32_t direction, Step step, MicroBatch micro_batch) {
  return phase << 29 | direction << 28 | static_cast<uint32_t>(step.value & 0xfff) << 16 |
         static_cast<uint32_t>(micro_batch.value & 0xffff);
}

}  // namespace

StageRunner::StageRunner(const TrainConfig& train, const Topology& topology, Role role, Communicator& world,
                         const BatchReader& batches, StageModel& model)
    : train_(train), topology_(topology), role_(role), world_(world), batches_(batches), model_(model),
      order_([&] {
        std::vector<int> widths;
        for (int s = 0; s < topology.stages(); ++s) widths.push_back(topology.lanes(s));
        return pipeline_schedule(widths, static_cast<int>(train.micro_batches))[role.stage];
      }()) {}

std::optional<MicroBatch> StageRunner::micro_batch_of(int round, int64_t micro_batches) const {
  const int64_t index = static_cast<int64_t>(round) * topology_.lanes(role_.stage) + role_.lane;
  if (index >= micro_batches) return std::nullopt;
  return MicroBatch(static_cast<int32_t>(index));
}

MicroBatchTokens StageRunner::tokens_of(Phase phase, Step step, MicroBatch micro_batch) const {
  if (!first() && !last()) return {};
  return phase == Phase::kTraining ? batches_.training(step, micro_batch) : batches_.validation(micro_batch);
}

void StageRunner::send(int stage, uint32_t name, MicroBatch micro_batch, at::Tensor tensor) {
  const Rank to = topology_.rank_of({stage, micro_batch.value % topology_.lanes(stage)});
  Sent sent{tensor.detach().contiguous().cpu(), {}};
  sent.message = world_.start_send(to.value, name, HostReadable(sent.tensor).bytes());
  sent_.push_back(std::move(sent));
}

at::Tensor StageRunner::receive(int stage, uint32_t name, MicroBatch micro_batch) {
  const Rank from = topology_.rank_of({stage, micro_batch.value % topology_.lanes(stage)});
  at::Tensor tensor = model_.new_boundary(train_.micro_batch_size);
  HostWritable into(tensor);
  throw_if_error(annotate(world_.start_receive(from.value, name, into.bytes()).wait(), "stage boundary"));
  into.commit();
  return tensor;
}

void StageRunner::finish_sends() {
  for (; !sent_.empty(); sent_.pop_front()) {
    throw_if_error(annotate(sent_.front().message.wait(), "stage boundary"));
  }
}

MicroBatchGraph StageRunner::forward(Phase phase, Step step, std::optional<MicroBatch> micro_batch) {
  if (!micro_batch) return model_.forward(0, {}, {}, {});
  const uint32_t name = message_name(static_cast<uint32_t>(phase), static_cast<uint32_t>(Direction::kActivation),
                                     step, *micro_batch);
  const MicroBatchTokens tokens = tokens_of(phase, step, *micro_batch);
  at::Tensor input;
  if (!first()) input = receive(role_.stage - 1, name, *micro_batch);
  MicroBatchGraph graph = model_.forward(train_.micro_batch_size, tokens.inputs, input, tokens.targets);
  if (!last()) send(role_.stage + 1, name, *micro_batch, graph.output);
  return graph;
}

void StageRunner::backward(Step step, std::optional<MicroBatch> micro_batch, MicroBatchGraph graph, double scale) {
  if (!micro_batch) {
    model_.backward(std::move(graph), {}, scale);
    return;
  }
  const uint32_t name = message_name(static_cast<uint32_t>(Phase::kTraining),
                                     static_cast<uint32_t>(Direction::kGradient), step, *micro_batch);
  at::Tensor output_gradient;
  if (!last()) output_gradient = receive(role_.stage + 1, name, *micro_batch);
  const at::Tensor input_gradient = model_.backward(std::move(graph), output_gradient, scale);
  if (!first()) send(role_.stage - 1, name, *micro_batch, input_gradient);
}

StepFindings StageRunner::run_step(Step step, double loss_scale) {
  StepFindings findings;
  std::deque<MicroBatchGraph> held;
  const double scale = loss_scale / static_cast<double>(train_.micro_batches);
  for (const RoundOperation& operation : order_) {
    const std::optional<MicroBatch> micro_batch = micro_batch_of(operation.round, train_.micro_batches);
    if (operation.kind == RoundOperation::Kind::kForward) {
      fault_point("step/forward");
      held.push_back(forward(Phase::kTraining, step, micro_batch));
      const MicroBatchGraph& graph = held.back();
      if (!micro_batch) continue;
      findings.load_imbalance_sum += graph.load_imbalance;
      findings.gate_count += static_cast<double>(graph.gates);
      if (graph.auxiliary_loss.defined()) findings.auxiliary_loss_sum += graph.auxiliary_loss.item<double>();
      if (!last()) continue;
      findings.loss_sum += graph.output.item<double>();
      findings.tokens += static_cast<double>(train_.micro_batch_size * model_.shape().sequence_length);
    } else {
      fault_point("step/backward");
      MicroBatchGraph graph = std::move(held.front());
      held.pop_front();
      backward(step, micro_batch, std::move(graph), scale);
    }
  }
  finish_sends();
  return findings;
}

double StageRunner::run_validation(int64_t micro_batches) {
  const at::NoGradGuard no_grad;
  double loss_sum = 0;
  const int rounds = round_count(topology_.lanes(role_.stage), static_cast<int>(micro_batches));
  for (int round = 0; round < rounds; ++round) {
    const std::optional<MicroBatch> micro_batch = micro_batch_of(round, micro_batches);
    const MicroBatchGraph graph = forward(Phase::kValidation, Step(0), micro_batch);
    if (micro_batch && last()) loss_sum += graph.output.item<double>();
  }
  finish_sends();
  return loss_sum;
}

}  // namespace evermoe
