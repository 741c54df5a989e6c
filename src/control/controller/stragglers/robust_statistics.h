// Middle and spread of numbers of which a few are far off. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace evermoe {

// REQUIRES: values.
double median(std::vector<double> values);
// As the standard deviation of a normal distribution, from the median deviation, which single
// values do not move. REQUIRES: values.
double spread(const std::vector<double>& values);
// The same from how neighbours differ: of values whose middle has changed meanwhile, too.
double spread_of_neighbours(const std::vector<double>& values);
// The error of the median of so many values that spread like that.
double error_of_median(double spread, std::ptrdiff_t count);
// Each value to the median of the others. REQUIRES: two at least, above 0.
std::vector<double> ratios_to_others(const std::vector<double>& values);

}  // namespace evermoe
