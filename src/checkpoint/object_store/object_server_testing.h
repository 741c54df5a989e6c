// For tests: a real server of objects (OpenStack Swift with its S3 interface, which checks
// signatures), as processes that can be killed and started again over the same folder.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/object_store/s3_store.h"
#include "env/process.h"

namespace evermoe {

class ObjectServer {
 public:
  // Keeps its objects in `folder`. CHECKs that it comes up.
  explicit ObjectServer(const std::string& folder);
  ~ObjectServer();
  void start();
  void kill();

  const std::string& bucket() const { return bucket_; }
  std::string url(const std::string& prefix) const { return "s3://" + bucket_ + "/" + prefix; }
  S3Options options() const;
  std::unique_ptr<ObjectStore> open(const std::string& prefix) const;
  // Environment variables by which s3_options() finds it.
  std::vector<std::pair<std::string, std::string>> environment() const;

 private:
  std::string folder_;
  std::string bucket_ = "checkpoints";
  bool has_bucket_ = false;
  int port_ = 0;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace evermoe
