// What an exported model consists of: which tensors, cut from which operators, and its config.json.
//
// Pure: decides from the shape alone, so that whatever cannot be exported is known before a byte is
// read or written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/format/element_type.h"
#include "export/export_format.h"
#include "model/model_shape.h"
#include "model/operator.h"

namespace evermoe {

// A tensor of the exported model: consecutive elements of one operator's flat layout.
struct ExportTensor {
  std::string name;  // as transformers calls it
  std::vector<int64_t> shape;
  FlatRange source;  // empty: the model has no such parameter, the tensor is all zeros
  // Rotary positions of our layout turn rows (i, i + head_dim / 2) of a head together, those of
  // some classes rows (2i, 2i + 1). With head_dim here the rows are written in that order;
  // attention scores do not change when queries and keys are reordered alike. 0: as they are.
  int64_t interleaved_head_dim = 0;

  int64_t numel() const;
};

struct ExportOperator {
  std::string name;
  int64_t flat_size = 0;
  std::vector<ExportTensor> tensors;
};

struct ExportPlan {
  ExportFormat format;
  ElementType type;
  std::vector<ExportOperator> operators;  // in canonical order
  nlohmann::ordered_json config;          // config.json
};

// InvalidInput if the format does not fit (check_format). REQUIRES: type is kFp32 or kBf16.
absl::StatusOr<ExportPlan> plan_export(const ModelShape& shape, ExportFormat format,
                                       ElementType type);

}  // namespace evermoe
