// A folder for the sockets by which the processes of one machine talk: no other user can look into
// it, reach what listens there or take a name in it.
//
// gRPC tells a server nothing of the user at the other end of an AF_UNIX stream, so the folder is
// what keeps others out: its mode is 0700, and a path is reached only by who may search every
// folder on it.
//
// It is made in $XDG_RUNTIME_DIR if that is a private folder of this user, else in /tmp: paths of
// sockets have at most 107 bytes. A lock that dies with the process that made the folder tells
// that it is in use; folders of processes that were killed are removed by the next one that makes
// one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comm/transport/socket.h"

namespace evermoe {

class PrivateFolder {
 public:
  // Internal if none can be made.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> make();
  // Removes it with the files and sockets in it.
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }
  // "unix:PATH/name": for ControlListener and ControlCall.
  std::string address(const std::string& name) const;

 private:
  PrivateFolder(std::string path, FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const FileDescriptor lock_;
};

}  // namespace evermoe
