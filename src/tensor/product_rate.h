// How fast dense products are on this machine.
#pragma once

namespace evermoe {

// Floating-point operations per second of fp32 products of square matrices that do not fit a cache,
// with so many threads: the median of some rounds, a second in all. Changes the process's number of
// compute threads.
double fp32_product_rate(int threads);

}  // namespace evermoe
