#include "cli/matrix_rate.h"

#include <thread>

#include "tensor/product_rate.h"

namespace evermoe {

std::optional<double> matrix_rate() { return fp32_product_rate(static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace evermoe
