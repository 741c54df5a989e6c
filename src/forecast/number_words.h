// Amounts as reports show them to people.
#pragma once

#include <string>

#include "forecast/estimate.h"

namespace evermoe {

std::string duration_words(double seconds);  // "850 ms", "12.3 s", "4.5 min", "2.1 h", "12.8 days"
std::string bytes_words(double bytes);       // "3.2 GB"; decimal, like links and memories
std::string count_words(double count);       // "1.05 M"
std::string percent_words(double share, int digits = 2);  // "97.31 %"
std::string percent_words(const Estimate& share, int digits = 2);  // "97.31 % (97.10 to 97.52)"

}  // namespace evermoe
