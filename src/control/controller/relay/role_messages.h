// What agents say of the processes that play roles on their nodes, and what of it is heard: only
// the newest process of a role counts (role_processes.h), and it speaks of itself alone. Pure but
// for the table, which notes what was heard.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <cstdint>
#include <optional>

#include "control/controller/relay/role_processes.h"
#include "control/wire/control_messages.h"

namespace evermoe {

struct HeardOfRole {
  bool is_nonsense = false;
  // To a process that is not the newest of its role any more; nothing else is there to do.
  std::optional<KillWorker> replaced;
  bool is_shown = false;        // that this process lives
  std::optional<pid_t> pid;     // of the role's process from now on; 0: none
  std::optional<Rank> accused;  // that it cannot reach
  std::optional<ControllerEvent> event;
  std::optional<ControlMessage> for_run;
};

// The agent of the node says so of process `start`.
HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const WorkerStarted& started,
                         RoleProcesses& processes);
HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const MemberJoined& joined,
                         RoleProcesses& processes);
HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const MemberSaid& said,
                         RoleProcesses& processes);
// Told with a sign of life of the agent; `lived`: when that member did for certain.
HeardOfRole hear_of_role(absl::Duration lived, Node node, int64_t start, const MemberAlive& alive,
                         RoleProcesses& processes);
HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const WorkerEnded& ended,
                         RoleProcesses& processes);
HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const WorkerReport& report,
                         RoleProcesses& processes);
HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const WorkerLogTail& words,
                         RoleProcesses& processes);

template <typename Message>
concept AboutRole = std::same_as<Message, WorkerStarted> || std::same_as<Message, MemberJoined> ||
    std::same_as<Message, MemberSaid> || std::same_as<Message, WorkerEnded> ||
    std::same_as<Message, WorkerReport> || std::same_as<Message, WorkerLogTail>;

}  // namespace evermoe
