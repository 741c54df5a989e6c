// For tests: runs the real binary, build/evermoe.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/folder_testing.h"
#include "env/files.h"
#include "env/process.h"

namespace evermoe {

struct BinaryResult {
  int code = -1;
  std::string out;
  std::string error;
};

// Everything in `text` that names `folder` becomes "D".
inline std::string without_folder(std::string text, const std::string& folder) {
  for (size_t at; (at = text.find(folder)) != std::string::npos;)
    text.replace(at, folder.size(), "D");
  return text;
}

// `scratch` is an existing folder for what the program prints.
inline BinaryResult run_binary(const std::vector<std::string>& arguments,
                               const std::string& scratch) {
  constexpr int64_t kOutputBytesMax = 1 << 24;
  SpawnOptions options;
  options.program = EVERMOE_BINARY_DIR "/evermoe";
  options.arguments = arguments;
  const std::string out = join_path(scratch, "stdout"), error = join_path(scratch, "stderr");
  options.stdout_fd = open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  options.stderr_fd = open(error.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  auto child = spawn(options);
  EXPECT_TRUE(child.ok()) << child.status();
  const auto status = (*child)->wait(absl::Seconds(60));
  EXPECT_TRUE(status.ok()) << status.status();
  close(options.stdout_fd);
  close(options.stderr_fd);
  return {status->code, read_file(real_files(), out, kOutputBytesMax).value(),
          read_file(real_files(), error, kOutputBytesMax).value()};
}

// Runs it in a folder of the test's own.
class BinaryTest : public testing::Test {
 protected:
  BinaryResult run(const std::vector<std::string>& arguments) {
    return run_binary(arguments, folder_.root());
  }

  // Expects success. Returns what it prints.
  std::string printed(const std::vector<std::string>& arguments) {
    const BinaryResult result = run(arguments);
    EXPECT_EQ(result.code, 0) << result.error;
    return result.out;
  }

  // Expects bad input: exit code 2, nothing on stdout; the line on stderr, with "D" for the folder.
  std::string refusal(const std::vector<std::string>& arguments) {
    const BinaryResult result = run(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    return without_folder(result.error.substr(0, result.error.find('\n')), folder_.root());
  }

  TestFolder folder_;
};

}  // namespace evermoe
