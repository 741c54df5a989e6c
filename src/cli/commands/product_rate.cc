#include "cli/commands/product_rate.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/worker_program.h"
#include "comm/transport/socket.h"
#include "env/process.h"

namespace evermoe {
namespace {

constexpr absl::Duration kProductPatience = absl::Minutes(1);
constexpr size_t kAnswerBytesMax = 256;

}  // namespace

absl::StatusOr<double> product_rate() {
  ASSIGN_OR_RETURN(const std::string program, find_worker(/*option=*/""));
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    return NoCapacity(absl::StrCat("pipe: ", std::strerror(errno)));
  const FileDescriptor reading(pipe[0]);
  FileDescriptor writing(pipe[1]);
  ASSIGN_OR_RETURN(
      const auto child,
      spawn({.program = program, .arguments = {"product-rate"}, .stdout_fd = writing.get()}));
  writing.reset();
  // The answer fits the pipe, so it is there when the program has ended.
  ASSIGN_OR_RETURN(const ExitStatus exit, child->wait(kProductPatience));
  std::array<char, kAnswerBytesMax> text;
  const ssize_t size = exit.ok() ? ::read(reading.get(), text.data(), text.size()) : 0;
  double rate = 0;
  if (size <= 0 ||
      !absl::SimpleAtod(absl::string_view(text.data(), static_cast<size_t>(size)), &rate)) {
    return Internal(absl::StrCat(program, " product-rate: ", to_string(exit)));
  }
  return rate;
}

}  // namespace evermoe
