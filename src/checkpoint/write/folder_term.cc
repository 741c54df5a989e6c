#include "checkpoint/write/folder_term.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "env/clock.h"

namespace evermoe {
namespace {

// Of others that take a term at the same moment.
constexpr int kTriesMax = 100;
// Older terms are history; a few stay for people to see.
constexpr int64_t kKept = 16;
constexpr char kEndSuffix[] = ".end";

std::string hash_of(const std::string& text) {
  return to_hex(fingerprint(std::as_bytes(std::span(text))));
}

std::string terms_of(const std::string& folder) { return join_path(folder, "terms"); }

std::string path_of(const std::string& folder, int64_t number) {
  return join_path(terms_of(folder), absl::StrFormat("%08d", number));
}

std::string end_path_of(const std::string& folder, int64_t number) {
  return path_of(folder, number) + kEndSuffix;
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

// "OWNER | job NAME | host N", for people, too.
std::string to_target(const FolderTerm& term) {
  if (term.job.empty()) return term.owner;
  return absl::StrCat(term.owner, " | job ", term.job, " | host ", term.hosts_before);
}

FolderTerm to_term(int64_t number, const std::string& target) {
  const std::vector<std::string> parts = absl::StrSplit(target, " | ");
  FolderTerm term{.number = number, .owner = target, .job = "", .hosts_before = 0};
  absl::string_view job, host;
  if (parts.size() != 3) return term;
  job = parts[1];
  host = parts[2];
  int64_t before = 0;
  if (!absl::ConsumePrefix(&job, "job ") || !absl::ConsumePrefix(&host, "host ") ||
      !absl::SimpleAtoi(host, &before) || before < 0) {
    return term;
  }
  return {.number = number, .owner = parts[0], .job = std::string(job), .hosts_before = before};
}

absl::StatusOr<FolderTerm> read_term(Files& files, const std::string& folder, int64_t number) {
  ASSIGN_OR_RETURN(const std::string target, files.read_symlink(path_of(folder, number)));
  return to_term(number, target);
}

bool has_ended(Files& files, const std::string& folder, int64_t number) {
  return files.is_symlink(end_path_of(folder, number));
}

// The term after `newest`, which may not be there.
FolderTerm next_term(Files& files, const std::string& folder,
                     const std::optional<FolderTerm>& newest, const std::string& owner,
                     const std::string& new_job,
                     const std::function<bool(const std::string&)>& continues, int64_t beyond) {
  // No number is left out after the first: hosts look for the one after theirs.
  FolderTerm next{newest ? newest->number + 1 : beyond + 1, owner, new_job, 0};
  if (!newest || newest->job.empty() || !continues || !continues(newest->job)) return next;
  if (has_ended(files, folder, newest->number)) return next;
  next.job = newest->job;
  next.hosts_before = newest->hosts_before + 1;
  return next;
}

// Older terms than those that are kept.
void forget_old(Files& files, const std::string& folder, const std::vector<int64_t>& there,
                int64_t newest) {
  for (const int64_t number : there) {
    if (number > newest - kKept) continue;
    (void)files.remove_file(path_of(folder, number));
    (void)files.remove_file(end_path_of(folder, number));
  }
}

absl::Status deleted(const std::string& folder, int64_t number) {
  return Hopeless(absl::StrCat("this run ends: its folder ", folder,
                               " has been deleted or replaced (term ", number, " is gone)"));
}

absl::Status used_by(const std::string& folder, const std::string& owner) {
  return Hopeless(absl::StrCat("this run ends: its folder ", folder,
                               " has been deleted and is used by ", owner));
}

absl::Status is_over(const std::string& folder, const FolderTerm& own, const FolderTerm& next) {
  return Hopeless(absl::StrCat("this run ends: term ", own.number, " of ", folder,
                               " is over, term ", next.number, " belongs to ", next.owner));
}

}  // namespace

bool is_same_job(const FolderTerm& a, const FolderTerm& b) {
  return !a.job.empty() && a.job == b.job;
}

bool is_replaced(const absl::Status& status) { return absl::IsAborted(status); }

std::string new_term_owner() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '?';
  return absl::StrCat(
      "process ", ::getpid(), " on ", host, " of ",
      absl::FormatTime("%Y-%m-%dT%H:%M:%E9SZ", real_clock().wall_now(), absl::UTCTimeZone()));
}

absl::StatusOr<std::string> name_of_folder(Files& files, const std::string& folder) {
  RETURN_IF_ERROR(files.create_directories(terms_of(folder)));
  // A copy of the folder has this link, too, but is another inode.
  ASSIGN_OR_RETURN(const FileIdentity terms, files.identity(terms_of(folder)));
  const std::string path = join_path(terms_of(folder), absl::StrFormat("folder-%x", terms.inode));
  const absl::Status made = files.create_symlink(hash_of(new_term_owner()), path);
  const absl::StatusOr<std::string> name = files.read_symlink(path);
  return name.ok() || made.ok() ? name : made;
}

std::string new_job_name(const std::string& substance) {
  return absl::StrCat(hash_of(new_term_owner()), "-", hash_of(substance));
}

bool is_job_of(const std::string& name, const std::string& substance) {
  return absl::EndsWith(name, absl::StrCat("-", hash_of(substance)));
}

absl::StatusOr<FolderTerm> take_next_term(Files& files, const std::string& folder,
                                          const std::string& owner, const std::string& new_job,
                                          const std::function<bool(const std::string&)>& continues,
                                          int64_t beyond) {
  RETURN_IF_ERROR(files.create_directories(terms_of(folder)));
  absl::Status refused;
  for (int i = 0; i < kTriesMax; ++i) {
    ASSIGN_OR_RETURN(std::vector<int64_t> there, numbers_in(files, folder));
    std::optional<FolderTerm> newest;
    if (!there.empty()) {
      absl::StatusOr<FolderTerm> last = read_term(files, folder, there.back());
      if (absl::IsNotFound(last.status())) continue;  // forgotten meanwhile
      ASSIGN_OR_RETURN(newest, std::move(last));
    }
    const FolderTerm next = next_term(files, folder, newest, owner, new_job, continues, beyond);
    const std::string path = path_of(folder, next.number);
    refused = files.create_symlink(to_target(next), path);
    // A network file system may have made it and lost the answer.
    const absl::StatusOr<std::string> target = files.read_symlink(path);
    if (target.ok() && *target == to_target(next)) {
      RETURN_IF_ERROR(files.sync_directory(terms_of(folder)));
      ASSIGN_OR_RETURN(there, numbers_in(files, folder));
      forget_old(files, folder, there, there.back());
      // Who stood still may have made again what others had taken and forgotten.
      if (next.number > there.back() - kKept) return next;
    }
    if (!target.ok() && !absl::IsAlreadyExists(refused)) break;  // it cannot be made
  }
  return annotate(refused, "no term can be taken");
}

absl::Status mark_job_ended(Files& files, const std::string& folder, const FolderTerm& term,
                            const std::string& how) {
  const absl::Status made = files.create_symlink(how, end_path_of(folder, term.number));
  if (!made.ok() && !has_ended(files, folder, term.number)) return made;
  return files.sync_directory(terms_of(folder));
}

absl::StatusOr<NewestTerm> newest_term(Files& files, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> there, numbers_in(files, folder));
  if (there.empty()) return NotFound(absl::StrCat(folder, " has no term"));
  NewestTerm newest;
  ASSIGN_OR_RETURN(newest.term, read_term(files, folder, there.back()));
  if (has_ended(files, folder, there.back())) {
    ASSIGN_OR_RETURN(newest.end, files.read_symlink(end_path_of(folder, there.back())));
  }
  return newest;
}

std::optional<std::string> end_since(const std::optional<NewestTerm>& met, const NewestTerm& now) {
  const bool had_ended = met && met->end && met->term.number == now.term.number;
  return had_ended ? std::nullopt : now.end;
}

std::optional<std::string> end_of(Files& files, const std::string& folder, const FolderTerm& term) {
  const absl::StatusOr<std::string> how = files.read_symlink(end_path_of(folder, term.number));
  return how.ok() ? std::optional(*how) : std::nullopt;
}

std::optional<std::string> end_by_former(Files& files, const std::string& folder,
                                         const FolderTerm& own) {
  const int64_t oldest = own.number - std::min(own.hosts_before, kKept);
  for (int64_t number = own.number - 1; number >= oldest; --number) {
    if (!has_ended(files, folder, number)) continue;
    const absl::StatusOr<FolderTerm> former = read_term(files, folder, number);
    if (former.ok() && is_same_job(*former, own)) return end_of(files, folder, *former);
  }
  return std::nullopt;
}

absl::Status check_term(Files& files, const std::string& folder, const FolderTerm& own) {
  if (own.number == 0) return absl::OkStatus();
  const absl::StatusOr<FolderTerm> mine = read_term(files, folder, own.number);
  if (!mine.ok() && !absl::IsNotFound(mine.status())) return mine.status();
  if (mine.ok() && *mine != own) return used_by(folder, mine->owner);
  if (mine.ok()) {
    const absl::StatusOr<FolderTerm> next = read_term(files, folder, own.number + 1);
    if (absl::IsNotFound(next.status())) return absl::OkStatus();
    if (!next.ok()) return next.status();
  }
  // Who was away for long has missed several.
  const absl::StatusOr<NewestTerm> newest = newest_term(files, folder);
  if (absl::IsNotFound(newest.status())) return deleted(folder, own.number);
  if (!newest.ok()) return newest.status();
  if (newest->term.number < own.number) return used_by(folder, newest->term.owner);
  if (!is_same_job(newest->term, own)) return is_over(folder, own, newest->term);
  return absl::AbortedError(absl::StrCat("term ", newest->term.number, " of ", folder,
                                         " belongs to ", newest->term.owner,
                                         ", which has the job now"));
}

absl::Status check_job(Files& files, const std::string& folder, const FolderTerm& known) {
  if (known.number == 0) return absl::OkStatus();
  const absl::StatusOr<NewestTerm> newest = newest_term(files, folder);
  if (absl::IsNotFound(newest.status())) return deleted(folder, known.number);
  if (!newest.ok()) return newest.status();
  const FolderTerm& term = newest->term;
  if (term == known) return absl::OkStatus();
  if (term.number <= known.number) return used_by(folder, term.owner);
  return is_same_job(term, known) ? absl::OkStatus() : is_over(folder, known, term);
}

}  // namespace evermoe
