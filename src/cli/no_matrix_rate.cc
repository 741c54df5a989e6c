// In place of torch's where it is not built.
#include "cli/matrix_rate.h"

namespace evermoe {

std::optional<double> matrix_rate() { return std::nullopt; }

}  // namespace evermoe
