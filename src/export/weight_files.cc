#include "export/weight_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/error.h"
#include "checkpoint/format/casts.h"

namespace evermoe {
namespace {

constexpr int64_t kWriteBytes = 4 << 20;
// So that a mapped tensor begins at a cache line.
constexpr int64_t kHeaderAlignment = 64;

std::string weight_file_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  return absl::StrFormat("model-%05d-of-%05d.safetensors", index + 1, count);
}

// The row of the stored layout that becomes row `row` of an interleaved one.
int64_t stored_row(int64_t row, int64_t head_dim) {
  const int64_t within = row % head_dim;
  return row - within + within / 2 + (within % 2) * (head_dim / 2);
}

}  // namespace

absl::StatusOr<std::vector<WeightFile>> lay_out_weight_files(const ExportPlan& plan,
                                                             int64_t file_bytes_max, int64_t step) {
  std::vector<WeightFile> result(1);
  int64_t data_bytes = 0;
  for (const ExportOperator& op : plan.operators) {
    for (const ExportTensor& tensor : op.tensors) {
      const int64_t bytes = tensor.numel() * element_bytes(plan.type);
      if (data_bytes > 0 && data_bytes + bytes > file_bytes_max) {
        result.emplace_back();
        data_bytes = 0;
      }
      data_bytes += bytes;
      result.back().tensors.push_back({tensor.name, safetensors_name(plan.type), tensor.shape});
    }
  }
  // transformers refuses files that do not say whose tensors they hold.
  const std::map<std::string, std::string> metadata = {{"format", "pt"},
                                                       {"evermoe_step", absl::StrCat(step)}};
  for (size_t i = 0; i < result.size(); ++i) {
    result[i].name = weight_file_name(i, result.size());
    ASSIGN_OR_RETURN(result[i].header,
                     make_safetensors_header(result[i].tensors, metadata, kHeaderAlignment));
    result[i].bytes = static_cast<int64_t>(result[i].header.size()) + result[i].tensors.back().end;
  }
  return result;
}

std::string weight_index(const std::vector<WeightFile>& weight_files) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  int64_t total = 0;
  for (const WeightFile& file : weight_files) {
    for (const SafetensorsTensor& tensor : file.tensors) {
      map[tensor.name] = file.name;
      total += tensor.end - tensor.begin;
    }
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  return index.dump(2) + "\n";
}

absl::Status WeightFileWriter::add(const ExportTensor& tensor, ElementType from_type,
                                   std::span<const std::byte> flat, ElementType to_type) {
  if (open_ != nullptr && tensor_index_ == layout_[file_index_].tensors.size()) {
    RETURN_IF_ERROR(close_open());
  }
  if (open_ == nullptr) RETURN_IF_ERROR(open_next());
  const SafetensorsTensor& place = layout_[file_index_].tensors[tensor_index_++];
  CHECK(place.name == tensor.name) << place.name << " " << tensor.name;
  if (tensor.source.size() == 0) return append_zeros(place.end - place.begin);
  const int64_t unit = element_bytes(from_type);
  const auto source = flat.subspan(static_cast<size_t>(tensor.source.begin * unit),
                                   static_cast<size_t>(tensor.source.size() * unit));
  if (tensor.interleaved_head_dim == 0) return append_cast(from_type, source, to_type);
  const size_t row_bytes = source.size() / static_cast<size_t>(tensor.shape[0]);
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    const size_t from =
        static_cast<size_t>(stored_row(row, tensor.interleaved_head_dim)) * row_bytes;
    RETURN_IF_ERROR(append_cast(from_type, source.subspan(from, row_bytes), to_type));
  }
  return absl::OkStatus();
}

absl::Status WeightFileWriter::finish() {
  CHECK(open_ != nullptr && file_index_ + 1 == layout_.size() &&
        tensor_index_ == layout_.back().tensors.size());
  return close_open();
}

absl::Status WeightFileWriter::open_next() {
  const WeightFile& file = layout_[file_index_];
  ASSIGN_OR_RETURN(open_,
                   files_.create(join_path(folder_, file.name), {.reserve_bytes = file.bytes}));
  tensor_index_ = 0;
  return append(std::as_bytes(std::span(file.header)));
}

absl::Status WeightFileWriter::close_open() {
  RETURN_IF_ERROR(flush());
  RETURN_IF_ERROR(open_->truncate(layout_[file_index_].bytes));
  RETURN_IF_ERROR(open_->sync());
  RETURN_IF_ERROR(open_->close());
  open_.reset();
  ++file_index_;
  return absl::OkStatus();
}

absl::Status WeightFileWriter::append(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return static_cast<int64_t>(buffer_.size()) < kWriteBytes ? absl::OkStatus() : flush();
}

absl::Status WeightFileWriter::append_cast(ElementType from_type, std::span<const std::byte> from,
                                           ElementType to_type) {
  const size_t unit = static_cast<size_t>(element_bytes(from_type));
  const size_t piece = static_cast<size_t>(kWriteBytes) / unit * unit;
  std::vector<std::byte> cast;
  for (size_t at = 0; at < from.size(); at += piece) {
    const auto part = from.subspan(at, std::min(piece, from.size() - at));
    cast.resize(part.size() / unit * static_cast<size_t>(element_bytes(to_type)));
    cast_elements(from_type, part, to_type, cast);
    RETURN_IF_ERROR(append(cast));
  }
  return absl::OkStatus();
}

absl::Status WeightFileWriter::append_zeros(int64_t bytes) {
  const std::vector<std::byte> zeros(static_cast<size_t>(std::min(bytes, kWriteBytes)));
  for (int64_t left = bytes; left > 0; left -= kWriteBytes) {
    RETURN_IF_ERROR(
        append(std::span(zeros).first(static_cast<size_t>(std::min(left, kWriteBytes)))));
  }
  return absl::OkStatus();
}

absl::Status WeightFileWriter::flush() {
  RETURN_IF_ERROR(open_->append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

}  // namespace evermoe
