#include "faults/fault_points.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace evermoe {
namespace {

TEST(FaultPoints, NamesAreDifferent) {
  std::set<std::string> names;
  for (const KnownFaultPoint& point : kFaultPoints) {
    EXPECT_TRUE(names.insert(point.name).second) << point.name;
    EXPECT_TRUE(is_known_fault_point(point.name));
    EXPECT_STRNE(point.meaning, "");
  }
  EXPECT_FALSE(is_known_fault_point("step/forwards"));
  EXPECT_FALSE(is_known_fault_point(""));
}

// No script could name a point that is not in the table.
TEST(FaultPoints, EveryPointOfTheSourceIsInTheTable) {
  const std::string call = "fault_point(\"";
  int64_t calls = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(EVERMOE_SOURCE_DIR "/src")) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".cc") || path.ends_with("_test.cc")) continue;
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (size_t at = text.find(call); at != std::string::npos;
         at = text.find(call, at + 1), ++calls) {
      const size_t name_begin = at + call.size();
      const std::string name = text.substr(name_begin, text.find('"', name_begin) - name_begin);
      EXPECT_TRUE(is_known_fault_point(name)) << name << " in " << path;
    }
  }
  EXPECT_GT(calls, 0);
}

}  // namespace
}  // namespace evermoe
