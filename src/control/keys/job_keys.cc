#include "control/keys/job_keys.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/transport/socket.h"
#include "control/keys/certificates.h"
#include "control/keys/private_file.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr size_t kPemBytesMax = size_t{64} << 10;
// How often a node looks whether the first one has made the keys.
constexpr absl::Duration kKeysLookEvery = absl::Milliseconds(200);

std::string file_in(const std::string& directory, const char* name) {
  return join_path(directory, name);
}

bool is_key_folder_there(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

absl::Status sync_folder(const std::string& path) {
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && ::fsync(folder.get()) == 0) return absl::OkStatus();
  return Internal(absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::Status write_keys(const std::string& directory, const JobKeys& keys) {
  RETURN_IF_ERROR(write_private_file(file_in(directory, "authority.pem"), keys.authority));
  RETURN_IF_ERROR(write_private_file(file_in(directory, "certificate.pem"), keys.certificate));
  RETURN_IF_ERROR(write_private_file(file_in(directory, "key.pem"), keys.private_key));
  RETURN_IF_ERROR(write_private_file(secret_path(directory), keys.secret.bytes()));
  return sync_folder(directory);
}

void remove_with_files(const std::string& directory) {
  for (const char* const name : {"authority.pem", "certificate.pem", "key.pem", "secret"})
    ::unlink(file_in(directory, name).c_str());
  ::rmdir(directory.c_str());
}

absl::Status exists_already(const std::string& directory) {
  return InvalidInput(absl::StrCat(directory, " exists; name a folder that does not"));
}

absl::Status publish_keys(const std::string& made, const std::string& directory) {
  // A folder with anything in it is not replaced.
  if (::rename(made.c_str(), directory.c_str()) == 0)
    return sync_folder(parent_directory(directory));
  if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) return exists_already(directory);
  return Internal(absl::StrCat(directory, ": ", std::strerror(errno)));
}

// A file of a folder that is there is published with it: if it is missing, somebody took it away.
absl::StatusOr<std::string> read_key_file(const std::string& path, size_t bytes_max) {
  absl::StatusOr<std::string> read = read_private_file(path, bytes_max);
  if (absl::IsNotFound(read.status()))
    return InvalidInput(absl::StrCat(path, " is missing; make new keys: evermoe keys new"));
  return read;
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::Status wait_for_keys(Clock& clock, const NodeKeys& node) {
  const absl::Duration deadline = clock.now() + node.patience;
  for (bool is_said = false; !is_key_folder_there(node.directory); is_said = true) {
    if (!is_said) {
      log_info(absl::StrCat("waits until node 0 has made the job's keys: ", node.directory));
    }
    if (clock.now() >= deadline) {
      return Timeout(absl::StrCat("node 0 has made no keys in ", node.directory, " for ",
                                  absl::FormatDuration(node.patience),
                                  "; does this node see the same folder? If not: evermoe keys new "
                                  "DIR, a copy of DIR on every "
                                  "machine, and --keys DIR"));
    }
    clock.sleep_until(clock.now() + kKeysLookEvery);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status create_keys(const std::string& wanted) {
  const std::string directory = without_slash(wanted);
  if (is_key_folder_there(directory)) return exists_already(directory);
  ASSIGN_OR_RETURN(const JobKeys keys, make_keys());
  std::string made = absl::StrCat(directory, ".new-XXXXXX");
  if (::mkdtemp(made.data()) == nullptr)
    return InvalidInput(absl::StrCat(directory, " cannot be made: ", std::strerror(errno)));
  absl::Status status = write_keys(made, keys);
  if (status.ok()) status = publish_keys(made, directory);
  if (!status.ok()) remove_with_files(made);
  return status;
}

absl::StatusOr<JobKeys> load_keys(const std::string& wanted) {
  const std::string directory = without_slash(wanted);
  const absl::Status there = check_private_folder(directory);
  if (absl::IsNotFound(there))
    return InvalidInput(absl::StrCat("--keys: found ", std::string(there.message()),
                                     ", allowed: a folder that `evermoe keys new` has made"));
  RETURN_IF_ERROR(there);
  JobKeys keys;
  ASSIGN_OR_RETURN(keys.authority,
                   read_key_file(file_in(directory, "authority.pem"), kPemBytesMax));
  ASSIGN_OR_RETURN(keys.certificate,
                   read_key_file(file_in(directory, "certificate.pem"), kPemBytesMax));
  ASSIGN_OR_RETURN(keys.private_key, read_key_file(file_in(directory, "key.pem"), kPemBytesMax));
  ASSIGN_OR_RETURN(keys.secret, load_secret(secret_path(directory)));
  if (const absl::Status fit = check_certificates(keys); !fit.ok()) return annotate(fit, directory);
  return keys;
}

std::string secret_path(const std::string& directory) { return file_in(directory, "secret"); }

absl::StatusOr<JobSecret> load_secret(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, read_key_file(path, JobSecret::kBytes));
  if (bytes.size() == JobSecret::kBytes) return JobSecret(std::move(bytes));
  return InvalidInput(absl::StrCat(path, " has ", bytes.size(), " bytes, not ", JobSecret::kBytes));
}

absl::StatusOr<JobKeys> keys_of_node(Clock& clock, const NodeKeys& node) {
  if (node.may_make && !is_key_folder_there(node.directory)) {
    if (!node.is_first) {
      RETURN_IF_ERROR(wait_for_keys(clock, node));
    } else {
      RETURN_IF_ERROR(real_files().create_directories(parent_directory(node.directory)));
      // Somebody else may host the job, too, and make them at the same moment.
      const absl::Status made = create_keys(node.directory);
      if (!made.ok() && !is_key_folder_there(node.directory)) return made;
    }
  }
  return load_keys(node.directory);
}

bool is_local_address(const std::string& address) { return address.starts_with("unix"); }

absl::StatusOr<std::shared_ptr<const JobKeys>> keys_for(const std::string& address,
                                                        const std::string& directory) {
  if (directory.empty() && is_local_address(address)) return nullptr;
  if (directory.empty())
    return InvalidInput(absl::StrCat(address, " is a network address: --keys DIR is missing"));
  ASSIGN_OR_RETURN(JobKeys keys, load_keys(directory));
  return std::make_shared<const JobKeys>(std::move(keys));
}

}  // namespace evermoe
