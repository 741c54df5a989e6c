#include "train/dispatch/lane_dispatch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "experts/dispatch/replica_buffers.h"
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

}  // namespace

LaneDispatch::LaneDispatch(Communicator& stage_group, const ExpertPlacement& placement,
                           const at::Tensor& experts, at::TensorOptions options, int64_t row_bytes)
    : TokenDispatch(experts.size(1), options), group_(stage_group) {
  const at::Tensor on_host = experts.cpu();
  const std::span<const int64_t> chosen = host_values<int64_t>(on_host);
  const int lane = group_.index();
  send_ = placement.has_replicas() ? plan_balanced(group_, chosen, placement)
                                   : plan_send(chosen, placement);
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
  layout_ = std::make_shared<ExpertLayout>(receive_.experts);
  const at::Device device = options_.device();
  const auto indices = [device](const std::vector<int64_t>& values) {
    return on_device<int64_t>(values, device);
  };
  token_of_row_ = indices(rows_out_.token_of_row);
  choice_position_ = indices(send_.choice_position);
  layout_position_ = indices(receive_.layout_position);
}

void LaneDispatch::start_to_experts(const at::Tensor& rows, std::span<const int64_t> notes) {
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

at::Tensor LaneDispatch::finish_to_experts() {
  CHECK(under_way_) << "nothing is under way";
  return under_way_->finish();
}

std::vector<std::vector<int64_t>> LaneDispatch::notes() const {
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

void LaneDispatch::return_rows(const at::Tensor& layout_rows) {
  CHECK(!under_way_) << "the exchange before has not ended";
  under_way_.emplace(group_, layout_rows.index_select(0, layout_position_), receive_.rows_from,
                     send_.rows_to);
}

at::Tensor LaneDispatch::receive_choices() {
  CHECK(under_way_) << "nothing is under way";
  const at::Tensor choices = under_way_->finish().index_select(0, choice_position_);
  under_way_.reset();
  return choices;
}

void LaneDispatch::send_rows(const at::Tensor& tokens) {
  start_to_experts(tokens.index_select(0, token_of_row_), rows_out_.row_of_choice);
}

at::Tensor LaneDispatch::receive_rows() {
  const at::Tensor rows = finish_to_experts();
  const std::vector<int64_t> sources =
      token_row_layout(receive_, token_rows_from_, notes(), rows.size(1) * rows.element_size());
  token_row_layout_ = on_device<int64_t>(sources, options_.device());
  under_way_.reset();
  return rows.index_select(0, token_row_layout_);
}

// The gradient of a choice's output is its token's times the choice's weight. A token's gradient
// travels once to a lane, too, and is multiplied there, with the same bits; a choice that travels
// as a row of its own is multiplied here.
void LaneDispatch::send_gradients(const at::Tensor& gradient, const at::Tensor& weights) {
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

at::Tensor LaneDispatch::receive_gradients(at::ScalarType wide) {
  const at::Tensor rows = finish_to_experts();
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
