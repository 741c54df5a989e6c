#include <gtest/gtest.h>

#include <random>

#include "config/config_fuzz_entry.h"
#include "config/job_config.h"

namespace evermoe {
namespace {

// Whole lines are repeated, dropped and joined, and bytes changed: most mutants stay close enough
// to TOML to reach the keys.
std::string mutated(const std::string& text, std::mt19937_64& random) {
  static const std::string kBytes = "=[]{}\"'.,#-+_0123456789eainf \n\t\\x\xff";
  std::string result = text;
  for (uint64_t count = 1 + random() % 4; count > 0 && !result.empty(); --count) {
    const size_t at = random() % result.size();
    switch (random() % 4) {
      case 0: result[at] = kBytes[random() % kBytes.size()]; break;
      case 1: result.erase(at, 1 + random() % 8); break;
      case 2: result.insert(at, 1, kBytes[random() % kBytes.size()]); break;
      default: result.insert(at, result.substr(random() % result.size(), random() % 40)); break;
    }
  }
  return result;
}

TEST(ConfigMutationTest, ErrorsAreOneLineAndAcceptedTextsRoundTrip) {
  const std::string whole = to_toml(parse_config("", "t", "/d", {}).value());
  const std::string small =
      "[model]\npreset = \"mixtral-tiny\"\nlayers = 4\n[parallel]\nstages = 2\nlanes = [2, 1]\n"
      "[protection]\nwindow = 4\nmemory_budget = \"1.5GiB\"\n";
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string input = mutated(i % 4 == 0 ? whole : small, random);
    if (i % 3 == 0) input += std::string("\0", 1) + mutated("train.steps=50", random);
    fuzz_config(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace evermoe
