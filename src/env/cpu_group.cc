#include "env/cpu_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "env/clock.h"
#include "env/files.h"
#include "env/named_descriptor.h"

namespace evermoe {
namespace {

// Short, so that processes that wait for each other do not wait for whole periods.
constexpr int64_t kPeriodMicroseconds = 10'000;
constexpr int64_t kQuotaMicrosecondsMin = 1'000;  // the kernel's
constexpr absl::Duration kEndMax = absl::Seconds(2), kEndLook = absl::Milliseconds(10);

struct Mount {
  std::string root, at, type, options;
};

std::vector<Mount> parse_mounts(const std::string& text) {
  std::vector<Mount> mounts;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<std::string> before = absl::StrSplit(halves[0], ' ');
    const std::vector<std::string> after = absl::StrSplit(halves[1], ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    mounts.push_back({before[3], before[4], after[0], after[2]});
  }
  return mounts;
}

bool has_word(const std::string& list, const char* word) {
  const std::vector<std::string> words = absl::StrSplit(list, ',');
  return std::ranges::count(words, word) > 0;
}

// The folder of a group, of which the mount shows the part below its root.
std::string folder_in(const Mount& mount, absl::string_view group) {
  if (mount.root != "/" && !absl::ConsumePrefix(&group, mount.root)) return mount.at;
  absl::ConsumePrefix(&group, "/");
  return group.empty() ? mount.at : join_path(mount.at, std::string(group));
}

// Files of control groups take one write, and no new file beside them.
absl::Status write_once(const std::string& path, const std::string& text) {
  const NamedDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC), path);
  if (file.get() < 0) return file.failed("open");
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  return written == std::ssize(text) ? absl::OkStatus() : file.failed("write");
}

absl::Status limit(const CpuGroupPlace& place, const std::string& folder, double cpus) {
  const auto quota =
      std::max(kQuotaMicrosecondsMin,
               static_cast<int64_t>(std::llround(cpus * double(kPeriodMicroseconds))));
  if (!place.is_first_version)
    return write_once(join_path(folder, "cpu.max"), absl::StrCat(quota, " ", kPeriodMicroseconds));
  RETURN_IF_ERROR(
      write_once(join_path(folder, "cpu.cfs_period_us"), absl::StrCat(kPeriodMicroseconds)));
  return write_once(join_path(folder, "cpu.cfs_quota_us"), absl::StrCat(quota));
}

std::string text_of(const char* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

absl::Status not_possible(const absl::Status& why) {
  return Unsupported(absl::StrCat(
      "CPUs cannot be limited here: ", why.message(),
      "; it takes root, or control groups with the cpu controller that this user may write"));
}

}  // namespace

std::optional<CpuGroupPlace> cpu_group_place(const std::string& groups, const std::string& mounts) {
  std::optional<CpuGroupPlace> second;
  const std::vector<Mount> mounted = parse_mounts(mounts);
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    for (const Mount& mount : mounted) {
      if (mount.type == "cgroup" && has_word(fields[1], "cpu") && has_word(mount.options, "cpu"))
        return CpuGroupPlace{folder_in(mount, fields[2]), true};
      if (mount.type != "cgroup2" || fields[0] != "0") continue;
      const std::string own = folder_in(mount, fields[2]);
      second = {own == mount.at ? own : parent_directory(own), false};
    }
  }
  return second;
}

absl::StatusOr<CpuGroupPlace> own_cpu_group_place() {
  const auto place = cpu_group_place(text_of("/proc/self/cgroup"), text_of("/proc/self/mountinfo"));
  if (!place) return not_possible(NotFound("no control groups are mounted"));
  return *place;
}

absl::StatusOr<std::unique_ptr<CpuGroup>> CpuGroup::make(const CpuGroupPlace& place,
                                                         const std::string& name, double cpus) {
  const std::string folder = join_path(place.folder, name);
  if (!place.is_first_version) {
    // Fails where somebody else has enabled it; whether it is, the limit tells.
    (void)write_once(join_path(place.folder, "cgroup.subtree_control"), "+cpu");
  }
  if (::mkdir(folder.c_str(), 0755) != 0)
    return not_possible(errno_status(errno, folder, "make the folder"));
  auto group = std::unique_ptr<CpuGroup>(new CpuGroup(folder));
  if (const absl::Status limited = limit(place, folder, cpus); !limited.ok())
    return not_possible(limited);
  return group;
}

CpuGroup::~CpuGroup() {
  Clock& clock = real_clock();
  for (const absl::Duration give_up = clock.now() + kEndMax; clock.now() < give_up;) {
    // The kernel removes the files of a group with it.
    if (::rmdir(folder_.c_str()) == 0 || errno != EBUSY) return;
    clock.sleep_until(clock.now() + kEndLook);  // killed processes are still ending
  }
}

std::string CpuGroup::entry() const { return join_path(folder_, "cgroup.procs"); }

}  // namespace evermoe
