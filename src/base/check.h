// CHECK: an invariant that holds unless there is a bug. Always on; prints and aborts.
//
// Use it for what the program alone controls. What the world can do (a peer that dies, a damaged
// file, a wrong configuration) is an absl::Status instead: see base/error.h.
#pragma once

#include <sstream>

namespace evermoe::internal {

// Collects the facts streamed after a failed CHECK and aborts when it is destroyed.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives both branches of CHECK's conditional expression the type void.
struct Voidify {
  void operator&(std::ostream&) {}
};

}  // namespace evermoe::internal

#define CHECK(condition)                         \
  (condition) ? (void)0                          \
              : ::evermoe::internal::Voidify() & \
                    ::evermoe::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define CHECK_OK(expression)                                  \
  do {                                                        \
    const auto evermoe_check_status = (expression);           \
    CHECK(evermoe_check_status.ok()) << evermoe_check_status; \
  } while (false)
