// config.json of an exported model.
#pragma once

#include <nlohmann/json.hpp>

#include "export/export_format.h"
#include "model/model_shape.h"
#include "store/element_type.h"

namespace evermoe {

// REQUIRES: the format fits.
nlohmann::ordered_json export_config(const ModelShape& shape, ExportFormat format, ElementType type);

}  // namespace evermoe
