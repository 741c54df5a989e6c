#include "control/health/health_measure.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "control/health/available_memory.h"
#include "control/health/loopback_trial.h"

namespace evermoe {
namespace {

constexpr size_t kTrialFileBytes = 64 << 10;

std::string trial_content() {
  std::string content(kTrialFileBytes, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 131 + (i >> 8));
  return content;
}

absl::Status write_and_read_back(Files& files, const std::string& path) {
  const std::string content = trial_content();
  RETURN_IF_ERROR(write_file_synced(files, path, content));
  ASSIGN_OR_RETURN(const std::string come, read_file(files, path, kTrialFileBytes));
  return come == content ? absl::OkStatus() : Corrupt("other bytes are read than were written");
}

FolderHealth measure_folder(const HealthReaders& readers, const std::string& path, bool is_shared) {
  FolderHealth health{.path = path, .is_shared = is_shared};
  const absl::Duration began = readers.clock->now();
  if (const auto free = readers.files->free_bytes(path); free.ok()) health.free_bytes = *free;
  const std::string file = join_path(path, absl::StrCat("trial-file-", ::getpid()));
  const absl::Status status = write_and_read_back(*readers.files, file);
  (void)readers.files->remove_file(file);
  health.trouble = std::string(status.message());
  health.is_full = absl::IsResourceExhausted(status);
  health.took = readers.clock->now() - began;
  return health;
}

LoopbackHealth loopback(const std::string& kind, const absl::Status& status) {
  return {kind, std::string(status.message())};
}

}  // namespace

HealthReaders real_readers() {
  return {.memory = [] { return available_memory(); },
          .files = &real_files(),
          .clock = &real_clock(),
          .tcp = [] { return try_tcp_loopback("127.0.0.1"); },
          .local_socket = try_unix_loopback};
}

NodeHealth measure_health(const HealthReaders& readers, const HealthPlaces& places,
                          const std::function<void(const std::string&)>& on_part) {
  NodeHealth health;
  const absl::Duration began = readers.clock->now();
  on_part("memory");
  health.memory_bytes = readers.memory();
  on_part("disk of " + places.own);
  health.folders.push_back(measure_folder(readers, places.own, /*is_shared=*/false));
  on_part("disk of " + places.shared);
  health.folders.push_back(measure_folder(readers, places.shared, /*is_shared=*/true));
  on_part("network of the machine itself");
  health.loopbacks.push_back(loopback("127.0.0.1", readers.tcp()));
  health.loopbacks.push_back(loopback("AF_UNIX", readers.local_socket(places.own)));
  health.clock_goes_on = readers.clock->now() > began;
  return health;
}

}  // namespace evermoe
