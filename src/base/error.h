// Expected failures, sorted by what the caller can do about them.
//
// Every function that can fail in the life of the system returns absl::Status or
// absl::StatusOr<T>. The constructors below fix which code means what:
//
//   InvalidInput   the user wrote something wrong: print the message, exit with code 2
//   PeerLost       a process is gone: ask for a new membership; accused_rank() names it
//   Timeout        no answer before the deadline, the peer may be alive; accused_rank() names it
//   Corrupt        bytes are not what was written: use another copy
//   Contradiction  what was computed twice has other bits: a fault of hardware or software; end,
//                  and say so; exit with code 4
//   Hopeless       nobody wrote anything wrong, and it would come again however often it is tried:
//                  end and say so; exit with code 4
//   NotFound       there is no such thing
//   NoCapacity     disk, memory or a named limit is exhausted
//   Cancelled      somebody asked to stop
//   Unsupported    this build or machine cannot do it
//   Internal       a library failed in a way that has no better answer
//
// A bug is none of these: it is a CHECK.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"

namespace evermoe {

absl::Status InvalidInput(std::string message);
absl::Status PeerLost(Rank accused, std::string message);
absl::Status Timeout(Rank accused, std::string message);
absl::Status Timeout(std::string message);
absl::Status Corrupt(std::string message);
absl::Status Contradiction(std::string message);
absl::Status Hopeless(std::string message);
absl::Status NotFound(std::string message);
absl::Status NoCapacity(std::string message);
absl::Status Cancelled(std::string message);
absl::Status Unsupported(std::string message);
absl::Status Internal(std::string message);

// The rank that a PeerLost or Timeout accuses, where the layer that failed knew it.
std::optional<Rank> accused_rank(const absl::Status& status);

// A Contradiction has the code of Corrupt, and this tells it apart.
bool is_contradiction(const absl::Status& status);
bool is_hopeless(const absl::Status& status);

// The same error with "context: " before its message; code, accused rank and kind are kept.
absl::Status annotate(const absl::Status& status, const std::string& context);

// What the process should exit with (base/exit_codes.h): 0 ok, 2 InvalidInput, 4 Hopeless and
// Contradiction, 1 anything else.
int exit_code(const absl::Status& status);

// Carries a Status through code that can only throw (autograd). guard() takes it out again.
struct StatusError : std::exception {
  explicit StatusError(absl::Status s) : status(std::move(s)), message(status.ToString()) {}
  const char* what() const noexcept override { return message.c_str(); }
  absl::Status status;
  std::string message;
};

// Throws StatusError unless `status` is ok. Only for code below autograd.
void throw_if_error(const absl::Status& status);

// Runs `body` and turns whatever it throws into a Status. Stands at named boundaries only:
// the step loop, thread bodies and bindings.
absl::Status guard(const std::function<absl::Status()>& body) noexcept;

}  // namespace evermoe

#define RETURN_IF_ERROR(expression)                  \
  do {                                               \
    absl::Status evermoe_status = (expression);      \
    if (!evermoe_status.ok()) return evermoe_status; \
  } while (false)

#define EVERMOE_CONCAT_INNER(a, b) a##b
#define EVERMOE_CONCAT(a, b) EVERMOE_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  EVERMOE_ASSIGN_OR_RETURN(EVERMOE_CONCAT(evermoe_result_, __LINE__), declaration, expression)
#define EVERMOE_ASSIGN_OR_RETURN(result, declaration, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return std::move(result).status();            \
  declaration = *std::move(result)
