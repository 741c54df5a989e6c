// A part of this machine's CPUs for some processes: Linux control groups, of the first and of the
// second version.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace evermoe {

// Where this process may make groups.
struct CpuGroupPlace {
  std::string folder;  // that a group is a folder of
  bool is_first_version = false;
  friend bool operator==(const CpuGroupPlace&, const CpuGroupPlace&) = default;
};

// From the texts of /proc/self/cgroup and /proc/self/mountinfo. Of the first version: below this
// process's own group; of the second, where a group with processes has none below it, beside it.
// nullopt: no control of CPUs is mounted here.
std::optional<CpuGroupPlace> cpu_group_place(const std::string& groups, const std::string& mounts);

// Processes that get, together, at most so many CPUs. Any thread.
class CpuGroup {
 public:
  // `name` is new in the place; `cpus` > 0, of which parts count. Unsupported, with what it takes,
  // where this process may not do that.
  static absl::StatusOr<std::unique_ptr<CpuGroup>> make(const CpuGroupPlace& place,
                                                        const std::string& name, double cpus);
  // Waits a little for processes that are ending; a group with others stays.
  ~CpuGroup();
  CpuGroup(const CpuGroup&) = delete;
  CpuGroup& operator=(const CpuGroup&) = delete;

  // A process that writes "0" there belongs to the group, with all that it starts from then on.
  std::string entry() const;

 private:
  explicit CpuGroup(std::string folder) : folder_(std::move(folder)) {}
  const std::string folder_;
};

// The place of this process. Unsupported where there is none.
absl::StatusOr<CpuGroupPlace> own_cpu_group_place();

}  // namespace evermoe
