// Numbers of an experiment's runs and summaries, as its page reads and shows them.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace evermoe {

inline constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
inline constexpr char kUnknown[] = "-";

// kGap where the object has no such number.
double run_number(const nlohmann::json& object, const std::string& name);

// kUnknown for kGap. A share as "12.3 %", and a difference of shares in points, with its sign.
std::string share_text(double share);
std::string points_text(double share);

}  // namespace evermoe
