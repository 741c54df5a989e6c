#include "checkpoint/write/folder_term.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "env/clock.h"

namespace evermoe {
namespace {

// Of others that take a term at the same moment.
constexpr int kTriesMax = 100;
// Older terms are history; a few stay for people to see.
constexpr int64_t kKept = 16;

std::string terms_of(const std::string& folder) { return join_path(folder, "terms"); }

std::string path_of(const std::string& folder, int64_t number) {
  return join_path(terms_of(folder), absl::StrFormat("%08d", number));
}

absl::StatusOr<std::vector<int64_t>> numbers_in(Files& files, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(terms_of(folder)));
  std::vector<int64_t> numbers;
  for (const std::string& name : names) {
    int64_t number = 0;
    if (absl::SimpleAtoi(name, &number) && number > 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

std::string new_term_owner() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '?';
  return absl::StrCat(
      "process ", ::getpid(), " on ", host, " of ",
      absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ", real_clock().wall_now(), absl::UTCTimeZone()));
}

absl::StatusOr<FolderTerm> take_next_term(Files& files, const std::string& folder,
                                          const std::string& owner) {
  RETURN_IF_ERROR(files.create_directories(terms_of(folder)));
  absl::Status refused;
  for (int i = 0; i < kTriesMax; ++i) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> there, numbers_in(files, folder));
    const FolderTerm next{there.empty() ? 1 : there.back() + 1, owner};
    const std::string path = path_of(folder, next.number);
    refused = files.create_symlink(owner, path);
    // A network file system may have made it and lost the answer.
    const absl::StatusOr<std::string> target = files.read_symlink(path);
    if (target.ok() && *target == owner) {
      RETURN_IF_ERROR(files.sync_directory(terms_of(folder)));
      for (const int64_t number : there) {
        if (number <= next.number - kKept) (void)files.remove_file(path_of(folder, number));
      }
      return next;
    }
    if (!target.ok()) break;  // nobody was faster: it cannot be made
  }
  return annotate(refused, "no term can be taken");
}

absl::Status check_term(Files& files, const std::string& folder, const FolderTerm& own) {
  if (own.number == 0) return absl::OkStatus();
  const absl::StatusOr<std::string> mine = files.read_symlink(path_of(folder, own.number));
  if (absl::IsNotFound(mine.status())) {
    return Hopeless(absl::StrCat("this run ends: its folder ", folder,
                                 " has been deleted or replaced (term ", own.number, " is gone)"));
  }
  if (!mine.ok()) return mine.status();
  if (*mine != own.owner) {
    return Hopeless(absl::StrCat("this run ends: its folder ", folder,
                                 " has been deleted and is used by ", *mine));
  }
  const auto next = files.read_symlink(path_of(folder, own.number + 1));
  if (absl::IsNotFound(next.status())) return absl::OkStatus();
  if (!next.ok()) return next.status();
  return Hopeless(absl::StrCat("this run ends: term ", own.number, " of ", folder,
                               " is over, term ", own.number + 1, " belongs to ", *next));
}

}  // namespace evermoe
