// The weights of an exported model, written one tensor after the other into safetensors files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/format/safetensors.h"
#include "env/files.h"
#include "export/export_plan.h"

namespace evermoe {

// One file: which tensors of the plan, in order.
struct WeightFile {
  std::string name;    // "model.safetensors" or "model-00001-of-00003.safetensors"
  std::string header;  // safetensors header
  std::vector<SafetensorsTensor> tensors;
  int64_t bytes = 0;  // of the whole file
};

// Deals the plan's tensors to files of at most `file_bytes_max` bytes of data where a file has more
// than one. `step` goes into the files' metadata.
absl::StatusOr<std::vector<WeightFile>> lay_out_weight_files(const ExportPlan& plan,
                                                             int64_t file_bytes_max, int64_t step);

// The text of model.safetensors.index.json.
std::string weight_index(const std::vector<WeightFile>& weight_files);

// Writes the tensors in the order of the layout. One thread.
class WeightFileWriter {
 public:
  // The layout must outlive it.
  WeightFileWriter(Files& files, std::string folder, const std::vector<WeightFile>& layout)
      : files_(files), folder_(std::move(folder)), layout_(layout) {}

  // The next tensor, from its operator's flat master weights in `from_type`.
  absl::Status add(const ExportTensor& tensor, ElementType from_type,
                   std::span<const std::byte> flat, ElementType to_type);
  // After the last tensor: everything is on the disk, but for the folder's names.
  absl::Status finish();

 private:
  absl::Status open_next();
  absl::Status close_open();
  absl::Status append(std::span<const std::byte> bytes);
  absl::Status append_cast(ElementType from_type, std::span<const std::byte> from,
                           ElementType to_type);
  absl::Status append_zeros(int64_t bytes);
  absl::Status flush();

  Files& files_;
  const std::string folder_;
  const std::vector<WeightFile>& layout_;
  size_t file_index_ = 0;    // of the file that is open, or is opened next
  size_t tensor_index_ = 0;  // of the next tensor in it
  std::unique_ptr<WritableFile> open_;
  std::vector<std::byte> buffer_;  // not yet given to the open file
};

}  // namespace evermoe
