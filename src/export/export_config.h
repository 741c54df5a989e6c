// config.json of an exported model.
#pragma once

#include <nlohmann/json.hpp>

#include "checkpoint/format/element_type.h"
#include "export/export_format.h"
#include "model/model_shape.h"

namespace evermoe {

// REQUIRES: the format fits.
nlohmann::ordered_json export_config(const ModelShape& shape, ExportFormat format,
                                     ElementType type);

}  // namespace evermoe
