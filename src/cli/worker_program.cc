#include "cli/worker_program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "comm/transport/socket.h"
#include "env/files.h"
#include "env/process.h"

namespace evermoe {
namespace {

constexpr char kName[] = "evermoe-worker";

bool is_program(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::string own_folder() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? parent_directory(std::string(path, static_cast<size_t>(size))) : ".";
}

absl::Status not_there(const std::string& who, const std::string& path) {
  return InvalidInput(
      absl::StrCat(who, ": found ", path, ", which is no program, allowed: the path of ", kName));
}

}  // namespace

absl::StatusOr<std::string> find_worker(const WorkerSearch& search,
                                        const std::function<bool(const std::string&)>& is_program) {
  const std::pair<std::string, std::string> named[] = {{"--worker", search.option},
                                                       {"EVERMOE_WORKER", search.environment}};
  for (const auto& [who, path] : named) {
    if (path.empty()) continue;
    if (!is_program(path)) return not_there(who, path);
    return path;
  }
  const std::vector<std::string> places = {
      join_path(search.own_folder, kName),
      join_path(parent_directory(search.own_folder), absl::StrCat("libexec/evermoe/", kName))};
  for (const std::string& place : places) {
    if (is_program(place)) return place;
  }
  return InvalidInput(absl::StrCat(
      "the program of the workers is missing: found neither ", absl::StrJoin(places, " nor "),
      "; build it with -DEVERMOE_TORCH=ON, or name it with EVERMOE_WORKER"));
}

absl::StatusOr<std::string> find_worker(const std::string& option) {
  const char* const environment = std::getenv("EVERMOE_WORKER");
  return find_worker({option, environment == nullptr ? "" : environment, own_folder()}, is_program);
}

absl::StatusOr<std::string> ask_worker(
    const std::string& program, const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    return NoCapacity(absl::StrCat("pipe: ", std::strerror(errno)));
  const FileDescriptor reading(pipe[0]);
  FileDescriptor writing(pipe[1]);
  ASSIGN_OR_RETURN(const auto child, spawn({.program = program,
                                            .arguments = arguments,
                                            .environment = environment,
                                            .stdout_fd = writing.get()}));
  writing.reset();
  // The answer fits the pipe, so it is there when the program has ended.
  ASSIGN_OR_RETURN(const ExitStatus exit, child->wait(kWorkerPatience));
  std::string answer(kWorkerAnswerBytesMax, '\0');
  const ssize_t size = exit.ok() ? ::read(reading.get(), answer.data(), answer.size()) : -1;
  if (size < 0) {
    return Internal(
        absl::StrCat(program, " ", absl::StrJoin(arguments, " "), ": ", to_string(exit)));
  }
  answer.resize(static_cast<size_t>(size));
  return answer;
}

}  // namespace evermoe
