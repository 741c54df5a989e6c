#include "train/layers/token_dispatch.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "experts/dispatch/replica_buffers.h"
#include "tensor/gradient_node.h"
#include "tensor/host_bytes.h"

namespace evermoe {
namespace {

// oneDNN generates its 16-bit matrix kernels for one number of rows each, which costs more than it
// computes in when every expert of every micro-batch has another number; FP32 goes to MKL, which
// does not.
int64_t row_multiple(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf ? 16 : 1;
}

// What a lane tells another: rows for each of its experts, and last how many rows they travel as.
std::vector<std::vector<int64_t>> exchange_counts(Communicator& group,
                                                  std::vector<std::vector<int64_t>> counts,
                                                  std::span<const int64_t> rows_to) {
  for (size_t lane = 0; lane < counts.size(); ++lane) counts[lane].push_back(rows_to[lane]);
  const size_t told = counts[static_cast<size_t>(group.index())].size();
  std::vector<std::vector<int64_t>> from(static_cast<size_t>(group.size()),
                                         std::vector<int64_t>(told));
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (size_t lane = 0; lane < counts.size(); ++lane) {
    sends.push_back(std::as_bytes(std::span(counts[lane])));
    receives.push_back(std::as_writable_bytes(std::span(from[lane])));
  }
  throw_if_error(annotate(group.all_to_all(sends, receives), "token counts"));
  return from;
}

// Where the choices go if experts have replicas: every lane knows what all have chosen, and plans
// the same.
SendPlan plan_balanced(Communicator& group, std::span<const int64_t> chosen,
                       const ExpertPlacement& placement) {
  const auto experts = static_cast<size_t>(placement.experts());
  std::vector<int64_t> tokens(experts * static_cast<size_t>(group.size()), 0), begins;
  const auto own = std::span(tokens).subspan(experts * static_cast<size_t>(group.index()), experts);
  for (const int64_t expert : chosen) ++own[static_cast<size_t>(expert)];
  for (int lane = 0; lane <= group.size(); ++lane)
    begins.push_back(lane * static_cast<int64_t>(experts * sizeof(int64_t)));
  throw_if_error(annotate(group.all_gather(std::as_writable_bytes(std::span(tokens)), begins),
                          "tokens of experts"));
  return plan_replica_send(chosen, group.index(), tokens, placement);
}

// rows [n, width] times factors [n], in the type of the factors, back in that of the rows.
at::Tensor scaled(const at::Tensor& rows, const at::Tensor& factors) {
  // In place of one copy: another would be the most memory that a layer takes in 16 bits.
  return rows.to(factors.scalar_type(), /*non_blocking=*/false, /*copy=*/true)
      .mul_(factors.unsqueeze(-1))
      .to(rows.scalar_type());
}

}  // namespace

std::shared_ptr<TokenDispatch> TokenDispatch::start(Communicator& stage_group,
                                                    const ExpertPlacement& placement,
                                                    std::span<const int64_t> experts, int64_t top_k,
                                                    const at::Tensor& tokens) {
  std::shared_ptr<TokenDispatch> dispatch(
      new TokenDispatch(stage_group, top_k, tokens.options().requires_grad(false)));
  dispatch->plan(placement, experts, tokens.size(1) * tokens.element_size());
  return dispatch;
}

void TokenDispatch::plan(const ExpertPlacement& placement, std::span<const int64_t> experts,
                         int64_t row_bytes) {
  const int lane = group_.index();
  send_ = placement.has_replicas() ? plan_balanced(group_, experts, placement)
                                   : plan_send(experts, placement);
  rows_out_ = plan_token_rows(send_, top_k_, row_bytes);
  std::vector<std::vector<int64_t>> counts =
      exchange_counts(group_, send_.counts, rows_out_.rows_to);
  for (std::vector<int64_t>& from : counts) {
    token_rows_from_.push_back(from.back());
    from.pop_back();
  }
  receive_ = plan_receive(counts, lane, placement,
                          row_multiple(at::typeMetaToScalarType(options_.dtype())));
  for (size_t from = 0; from < counts.size(); ++from) {
    message_rows_from_.push_back(
        message_rows(token_rows_from_[from], receive_.rows_from[from], row_bytes));
  }
  const at::Device device = options_.device();
  const auto indices = [device](const std::vector<int64_t>& values) {
    return on_device<int64_t>(values, device);
  };
  token_of_row_ = indices(rows_out_.token_of_row);
  choice_position_ = indices(send_.choice_position);
  layout_position_ = indices(receive_.layout_position);
  if (!is_alone()) return;
  choice_order_ = indices(send_.choice_order);
  layout_source_ = indices(receive_.layout_source);
}

void TokenDispatch::start_to_experts(const at::Tensor& rows, std::span<const int64_t> notes) {
  CHECK(!under_way_) << "the exchange before has not ended";
  std::vector<RowExchange::Notes> of_lanes;
  for (size_t lane = 0; lane < rows_out_.rows_to.size(); ++lane) {
    const int64_t count = rows_out_.rows_to[lane];
    const auto of_lane = notes.first(static_cast<size_t>(send_.rows_to[lane]));
    notes = notes.subspan(of_lane.size());
    of_lanes.push_back(
        {count, has_notes(count, send_.rows_to[lane]) ? of_lane : std::span<const int64_t>()});
  }
  under_way_.emplace(group_, rows, rows_out_.message_rows_to, message_rows_from_, of_lanes);
}

at::Tensor TokenDispatch::finish_to_experts() {
  CHECK(under_way_) << "nothing is under way";
  return under_way_->finish();
}

std::vector<std::vector<int64_t>> TokenDispatch::notes() const {
  std::vector<std::vector<int64_t>> notes(token_rows_from_.size());
  for (size_t lane = 0; lane < notes.size(); ++lane) {
    const int64_t rows = token_rows_from_[lane], choices = receive_.rows_from[lane];
    if (!has_notes(rows, choices)) continue;
    const std::span<const std::byte> bytes = under_way_->bytes_from(static_cast<int>(lane));
    const size_t row_bytes = bytes.size() / static_cast<size_t>(message_rows_from_[lane]);
    notes[lane].resize(static_cast<size_t>(choices));
    std::memcpy(notes[lane].data(), bytes.data() + static_cast<size_t>(rows) * row_bytes,
                notes[lane].size() * sizeof(int64_t));
  }
  return notes;
}

void TokenDispatch::start_from_experts(const at::Tensor& layout_rows) {
  CHECK(!under_way_) << "the exchange before has not ended";
  under_way_.emplace(group_, layout_rows.index_select(0, layout_position_), receive_.rows_from,
                     send_.rows_to);
}

at::Tensor TokenDispatch::finish_from_experts() {
  CHECK(under_way_) << "nothing is under way";
  const at::Tensor choices = under_way_->finish().index_select(0, choice_position_);
  under_way_.reset();
  return choices;
}

at::Tensor TokenDispatch::send_tokens(const at::Tensor& tokens) {
  {
    const at::NoGradGuard no_grad;
    start_to_experts(tokens.detach().index_select(0, token_of_row_), rows_out_.row_of_choice);
  }
  const int64_t token_count = tokens.size(0);
  return with_gradient(at::empty({0}, options_), {tokens},
                       [self = shared_from_this(), token_count](const auto&) {
                         // A token's gradient is the sum over its choices, in their order: no
                         // scatter, so no atomics.
                         const at::Tensor choices = self->finish_from_experts();
                         return std::vector<at::Tensor>{
                             choices.view({token_count, self->top_k_, choices.size(1)}).sum(1)};
                       });
}

at::Tensor TokenDispatch::receive_tokens(const at::Tensor& under_way) {
  at::Tensor layout;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor rows = finish_to_experts();
    const std::vector<int64_t> sources =
        token_row_layout(receive_, token_rows_from_, notes(), rows.size(1) * rows.element_size());
    token_row_layout_ = on_device<int64_t>(sources, options_.device());
    under_way_.reset();
    layout = rows.index_select(0, token_row_layout_);
  }
  return with_gradient(layout, {under_way},
                       [self = shared_from_this()](const at::Tensor& gradient) {
                         self->start_from_experts(gradient);
                         return std::vector<at::Tensor>{at::empty({0}, self->options_)};
                       });
}

TokenDispatch::Mixed TokenDispatch::to_tokens(const at::Tensor& expert_outputs,
                                              const at::Tensor& weights) {
  Mixed mixed;
  const at::Tensor factors = weights.detach();
  {
    const at::NoGradGuard no_grad;
    start_from_experts(expert_outputs.detach());
    const at::Tensor choices = finish_from_experts();
    mixed.choices = choices.view({choices.size(0) / top_k_, top_k_, choices.size(1)});
    mixed.tokens = (mixed.choices * factors.unsqueeze(-1)).sum(1).to(choices.scalar_type());
  }
  mixed.tokens = with_gradient(
      mixed.tokens, {expert_outputs, weights},
      [self = shared_from_this(), factors, choices = mixed.choices](const at::Tensor& gradient) {
        self->send_gradients(gradient, factors);
        const at::Tensor of_choices =
            gradient.to(factors.scalar_type()).unsqueeze(1).expand(choices.sizes());
        const at::Tensor of_weights = (of_choices * choices).sum(2);
        return std::vector<at::Tensor>{self->receive_gradients(factors.scalar_type()), of_weights};
      });
  return mixed;
}

// The gradient of a choice's output is its token's times the choice's weight. A token's gradient
// travels once to a lane, too, and is multiplied there, with the same bits; a choice that travels
// as a row of its own is multiplied here.
void TokenDispatch::send_gradients(const at::Tensor& gradient, const at::Tensor& weights) {
  if (is_alone()) {
    under_way_.emplace(group_, gradient.index_select(0, token_of_row_), rows_out_.message_rows_to,
                       message_rows_from_);
    weights_of_alone_ = weights;
    return;
  }
  const at::Tensor host = weights.to(at::kDouble).cpu().contiguous();
  const std::span<const double> weight_of_choice = host_values<double>(host);
  std::vector<int64_t> notes;
  std::vector<double> factors;
  bool is_scaled = false;
  size_t position = 0;
  for (size_t lane = 0; lane < send_.rows_to.size(); ++lane) {
    const bool by_note = has_notes(rows_out_.rows_to[lane], send_.rows_to[lane]);
    const size_t end = position + static_cast<size_t>(send_.rows_to[lane]);
    for (; position < end; ++position) {
      const double weight = weight_of_choice[static_cast<size_t>(send_.choice_order[position])];
      notes.push_back(std::bit_cast<int64_t>(weight));
      if (!by_note) factors.push_back(weight);
    }
    if (by_note)
      factors.resize(factors.size() + static_cast<size_t>(rows_out_.message_rows_to[lane]), 1);
    is_scaled = is_scaled || (!by_note && send_.rows_to[lane] > 0);
  }
  const at::Tensor rows = gradient.index_select(0, token_of_row_);
  const auto factor = [&] {
    return on_device<double>(factors, rows.device()).to(weights.scalar_type());
  };
  start_to_experts(is_scaled ? scaled(rows, factor()) : rows, notes);
}

at::Tensor TokenDispatch::receive_gradients(at::ScalarType wide) {
  const at::Tensor rows = finish_to_experts();
  if (is_alone()) {
    under_way_.reset();
    const at::Tensor of_choices = std::exchange(weights_of_alone_, at::Tensor()).flatten();
    const at::Tensor factors =
        at::cat({of_choices.index_select(0, choice_order_), at::ones({1}, of_choices.options())});
    return scaled(rows.index_select(0, token_row_layout_), factors.index_select(0, layout_source_));
  }
  std::vector<double> factor_of_choice;  // in the order of the receive buffer, then the zero row's
  bool is_scaled = false;
  const std::vector<std::vector<int64_t>> notes_from = notes();
  for (size_t lane = 0; lane < notes_from.size(); ++lane) {
    for (const int64_t note : notes_from[lane])
      factor_of_choice.push_back(std::bit_cast<double>(note));
    is_scaled = is_scaled || !notes_from[lane].empty();
    if (notes_from[lane].empty())
      factor_of_choice.resize(
          factor_of_choice.size() + static_cast<size_t>(receive_.rows_from[lane]), 1);
  }
  factor_of_choice.push_back(1);
  under_way_.reset();
  const at::Tensor layout = rows.index_select(0, token_row_layout_);
  if (!is_scaled) return layout;
  std::vector<double> factors;
  for (const int64_t source : receive_.layout_source)
    factors.push_back(factor_of_choice[static_cast<size_t>(source)]);
  return scaled(layout, on_device<double>(factors, layout.device()).to(wide));
}

}  // namespace evermoe
