// For tests: texts of configurations and what becomes of them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/job_config.h"

namespace evermoe {

// Of a file /jobs/job.toml with this text, changed by `settings`.
inline JobConfig parsed(const std::string& text, const std::vector<std::string>& settings = {}) {
  const absl::StatusOr<JobConfig> config = parse_config(text, "job.toml", "/jobs", settings);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : JobConfig{};
}

// What it is refused with.
inline std::string error_of(const std::string& text,
                            const std::vector<std::string>& settings = {}) {
  const absl::Status status = parse_config(text, "job.toml", "/jobs", settings).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

}  // namespace evermoe
