// Terms: who may write into a job's folder.
//
// Whoever begins to host a job takes the folder's next term: the symbolic link OUT/terms/<number>,
// whose target names the host and the job. Making a link is one exclusive call that has its whole
// content at once, on network file systems too, so no two hosts have one term, and numbers only
// grow. The newest term says which job the folder belongs to, and who decides in it: a host of an
// older term ends; the workers of its job go on under the new one. From the first term of another
// job on nobody of the older job may act. Whoever has a term looks now and then, and before
// everything that others would take for the truth.
//
// No locks: who stood still, or was cut off, finds out when it comes back. What it cannot exclude
// is a write that the check before it allowed and the file system carries out later; shards and
// manifests therefore name the job, and those of different jobs are never one checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/files.h"

namespace evermoe {

struct FolderTerm {
  int64_t number = 0;  // 0: none was taken; then everything is allowed
  std::string owner;   // one line, different for every host: for people, too
  std::string job;     // the same in all terms of a job, of no other one; empty: it has one term
  int64_t hosts_before = 0;  // how many terms the job had before this one
  friend bool operator==(const FolderTerm&, const FolderTerm&) = default;
};

bool is_same_job(const FolderTerm& a, const FolderTerm& b);

// For a host that this process begins now.
std::string new_term_owner();
// For a job that begins now. Two hosts may be of one job only if they would do the same:
// `substance` is all that decides on it, and a part of the name.
std::string new_job_name(const std::string& substance);
bool is_job_of(const std::string& name, const std::string& substance);

// The next term of the folder, which exists: of the job of the newest term if that has not ended
// and `continues` says so of its name, else of `new_job`. The first one is above `beyond`, the term
// of a checkpoint that was brought from another folder. NoCapacity or Internal if the disk refuses.
absl::StatusOr<FolderTerm> take_next_term(
    Files& files, const std::string& folder, const std::string& owner,
    const std::string& new_job = "",
    const std::function<bool(const std::string& job)>& continues = nullptr, int64_t beyond = 0);

// Says that the job of the term has ended in an orderly way: nobody takes it over any more. `how`
// is one of these, or why it failed.
inline constexpr char kJobFinished[] = "finished";
inline constexpr char kJobDrained[] = "drained";
absl::Status mark_job_ended(Files& files, const std::string& folder, const FolderTerm& term,
                            const std::string& how);
// The newest term, and how its job has ended, if so. NotFound if there is none.
struct NewestTerm {
  FolderTerm term;
  std::optional<std::string> end;
};
absl::StatusOr<NewestTerm> newest_term(Files& files, const std::string& folder);
// How the job of somebody has ended who came when `met` was the newest term (nullopt: there was
// none); nullopt if it has not, or had before.
std::optional<std::string> end_since(const std::optional<NewestTerm>& met, const NewestTerm& now);

// How the job of that term has ended; nullopt if its host has not said so.
std::optional<std::string> end_of(Files& files, const std::string& folder, const FolderTerm& term);
// How a host before that of `own`, of the same job, has ended the job though `own` had been taken:
// all its processes have ended then. nullopt if none has.
std::optional<std::string> end_by_former(Files& files, const std::string& folder,
                                         const FolderTerm& own);

// A name that no other folder has, be it a copy of this one, however the machines that see it call
// it; made by whoever asks first. Machines that see the folder see the same inode numbers.
absl::StatusOr<std::string> name_of_folder(Files& files, const std::string& folder);

// Of a host. Ok: `own` is still the newest. Replaced (an Aborted) says who hosts the job now;
// Hopeless who uses the folder for another job, or that it has been deleted or begun anew. Any
// other error: it cannot be known now.
absl::Status check_term(Files& files, const std::string& folder, const FolderTerm& own);
bool is_replaced(const absl::Status& status);
// Of a member of the job: Ok while the newest term is of its job. Else as above.
absl::Status check_job(Files& files, const std::string& folder, const FolderTerm& known);

}  // namespace evermoe
