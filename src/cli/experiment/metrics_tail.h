// The newest step of a metrics.jsonl that a running job appends to.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "env/files.h"

namespace evermoe {

// One thread.
class MetricsTail {
 public:
  MetricsTail(Files& files, std::string path) : files_(files), path_(std::move(path)) {}

  // Of the last whole line that has one; 0 before. Reads only what is new since the last look, all
  // of it again where the file has become shorter. What cannot be read is as if it were not there.
  int64_t newest_step();

  int64_t bytes_read() const { return bytes_read_; }  // by all looks together

 private:
  Files& files_;
  const std::string path_;
  int64_t seen_ = 0;  // bytes, up to the end of the last whole line
  int64_t newest_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace evermoe
