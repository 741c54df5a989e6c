#include "train/layers/token_dispatch.h"

#include "base/error.h"
#include "tensor/gradient_node.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

at::Tensor index_tensor(std::span<const int64_t> values, at::Device device) {
  at::Tensor host = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), host.mutable_data_ptr<int64_t>());
  return host.to(device);
}

// oneDNN generates its 16-bit matrix kernels for one number of rows each, which costs more than it
// computes in when every expert of every micro-batch has another number; FP32 goes to MKL, which
// does not.
int64_t row_multiple(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf ? 16 : 1;
}

std::vector<std::vector<int64_t>> exchange_counts(Communicator& group,
                                                  const std::vector<std::vector<int64_t>>& counts) {
  const size_t hosted = counts[group.index()].size();
  std::vector<std::vector<int64_t>> from(group.size(), std::vector<int64_t>(hosted));
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (int lane = 0; lane < group.size(); ++lane) {
    sends.push_back(std::as_bytes(std::span(counts[lane])));
    receives.push_back(std::as_writable_bytes(std::span(from[lane])));
  }
  throw_if_error(annotate(group.all_to_all(sends, receives), "token counts"));
  return from;
}

}  // namespace

std::shared_ptr<TokenDispatch> TokenDispatch::start(Communicator& stage_group,
                                                    const ExpertPlacement& placement,
                                                    std::span<const int64_t> experts, int64_t top_k,
                                                    at::TensorOptions tokens) {
  const at::Device device = tokens.device();
  std::shared_ptr<TokenDispatch> dispatch(new TokenDispatch(stage_group, top_k));
  const int lane = stage_group.index();
  dispatch->send_ = plan_send(experts, lane, placement);
  dispatch->receive_ =
      plan_receive(exchange_counts(stage_group, dispatch->send_.counts), lane, placement,
                   row_multiple(at::typeMetaToScalarType(tokens.dtype())));
  std::vector<int64_t> token_of_position(dispatch->send_.slot_order);
  for (int64_t& slot : token_of_position) slot /= top_k;
  dispatch->token_of_position_ = index_tensor(token_of_position, device);
  dispatch->slot_position_ = index_tensor(dispatch->send_.slot_position, device);
  dispatch->layout_source_ = index_tensor(dispatch->receive_.layout_source, device);
  dispatch->layout_position_ = index_tensor(dispatch->receive_.layout_position, device);
  return dispatch;
}

at::Tensor TokenDispatch::exchange(const at::Tensor& rows, std::span<const int64_t> rows_out,
                                   std::span<const int64_t> rows_in) {
  int64_t total_in = 0;
  for (const int64_t count : rows_in) total_in += count;
  // One more row, zero, for the padding of the expert layout.
  at::Tensor received = at::empty({total_in + 1, rows.size(1)}, rows.options());
  received[total_in].zero_();
  const HostReadable out(rows);
  HostWritable in(received);
  const int64_t row_bytes = rows.size(1) * rows.element_size();
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  int64_t sent = 0, taken = 0;
  for (int lane = 0; lane < group_.size(); ++lane) {
    sends.push_back(out.bytes().subspan(sent * row_bytes, rows_out[lane] * row_bytes));
    receives.push_back(in.bytes().subspan(taken * row_bytes, rows_in[lane] * row_bytes));
    sent += rows_out[lane];
    taken += rows_in[lane];
  }
  throw_if_error(annotate(group_.all_to_all(sends, receives), "token exchange"));
  in.commit();
  return received;
}

at::Tensor TokenDispatch::slots_to_layout(const at::Tensor& slot_rows) {
  return exchange(slot_rows, send_.rows_to, receive_.rows_from).index_select(0, layout_source_);
}

at::Tensor TokenDispatch::layout_to_slots(const at::Tensor& layout_rows) {
  return exchange(layout_rows.index_select(0, layout_position_), receive_.rows_from, send_.rows_to)
      .index_select(0, slot_position_);
}

at::Tensor TokenDispatch::to_experts(const at::Tensor& tokens) {
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = slots_to_layout(tokens.detach().index_select(0, token_of_position_));
  }
  const int64_t token_count = tokens.size(0);
  return with_gradient(output, {tokens},
                       [self = shared_from_this(), token_count](const at::Tensor& gradient) {
                         // A token's gradient is the sum over its choices, in their order: no
                         // scatter, so no atomics.
                         const at::Tensor slots = self->layout_to_slots(gradient.contiguous());
                         return std::vector<at::Tensor>{
                             slots.view({token_count, self->top_k_, gradient.size(1)}).sum(1)};
                       });
}

at::Tensor TokenDispatch::to_tokens(const at::Tensor& expert_outputs) {
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor slots = layout_to_slots(expert_outputs.detach());
    output = slots.view({slots.size(0) / top_k_, top_k_, slots.size(1)});
  }
  return with_gradient(
      output, {expert_outputs}, [self = shared_from_this()](const at::Tensor& gradient) {
        const at::Tensor rows =
            gradient.reshape({gradient.size(0) * gradient.size(1), gradient.size(2)});
        const at::Tensor in_send_order =
            at::empty_like(rows).index_copy_(0, self->slot_position_, rows);
        return std::vector<at::Tensor>{self->slots_to_layout(in_send_order)};
      });
}

}  // namespace evermoe
