// A name that one process of this machine has at a time.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace evermoe {

// Held until it is destroyed or the process ends, however it does: the kernel takes it back, so
// there is nothing to clean up. Processes in other network namespaces have names of their own. Any
// thread.
class ExclusiveName {
 public:
  // nullopt: another one has it, perhaps in this process. `name` has at most 100 bytes.
  static std::optional<ExclusiveName> take(const std::string& name);
  ~ExclusiveName();
  ExclusiveName(ExclusiveName&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  ExclusiveName& operator=(ExclusiveName&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }

 private:
  explicit ExclusiveName(int socket) : socket_(socket) {}
  int socket_ = -1;
};

}  // namespace evermoe
