#include "control/controller/relay/role_messages.h"

#include <variant>

namespace evermoe {
namespace {

// What comes of it whatever was said; nullopt: the newest process of the role speaks.
std::optional<HeardOfRole> not_heard(absl::Duration now, Node node, int64_t start, Rank rank,
                                     View since, RoleProcesses& processes) {
  if (!processes.has(rank)) return HeardOfRole{.is_nonsense = true};
  if (processes.hear(rank, start, node, now)) {
    processes.of(rank).since = since;
    return std::nullopt;
  }
  return HeardOfRole{.replaced = KillWorker{node, rank, since, RoleProcesses::kReplaced}};
}

}  // namespace

HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const WorkerStarted& started,
                         RoleProcesses& processes) {
  if (auto other = not_heard(now, node, start, started.rank, started.since, processes))
    return *std::move(other);
  HeardOfRole heard{.is_shown = true, .pid = started.pid};
  if (started.is_standby) heard.event = StandbyPromoted{started.rank, started.since, node};
  return heard;
}

HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const MemberJoined& joined,
                         RoleProcesses& processes) {
  if (auto other = not_heard(now, node, start, joined.rank, joined.since, processes))
    return *std::move(other);
  MemberJoined event = joined;
  event.node = node;
  return {.event = std::move(event)};
}

HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const MemberSaid& said,
                         RoleProcesses& processes) {
  if (auto other = not_heard(now, node, start, said.rank, said.since, processes))
    return *std::move(other);
  const Rank inside = std::visit([](const auto& message) { return message.rank; }, said.message);
  if (inside != said.rank) return {.is_nonsense = true};
  const auto* const trouble = std::get_if<Trouble>(&said.message);
  const std::optional<Rank> accused = trouble == nullptr ? std::nullopt : trouble->accused;
  if (accused && !processes.has(*accused)) return {.is_nonsense = true};
  return {.accused = accused, .event = said};
}

HeardOfRole hear_of_role(absl::Duration lived, Node node, int64_t start, const MemberAlive& alive,
                         RoleProcesses& processes) {
  if (auto other = not_heard(lived, node, start, alive.rank, alive.since, processes))
    return *std::move(other);
  return {.event = alive};
}

HeardOfRole hear_of_role(absl::Duration now, Node node, int64_t start, const WorkerEnded& ended,
                         RoleProcesses& processes) {
  if (auto other = not_heard(now, node, start, ended.rank, ended.since, processes))
    return *std::move(other);
  WorkerEnded event = ended;
  event.node = node;
  return {.pid = 0, .event = std::move(event)};
}

// It is for people, and no sign of life.
HeardOfRole hear_of_role(absl::Duration, Node, int64_t start, const WorkerReport& report,
                         RoleProcesses& processes) {
  if (!processes.has(report.rank)) return {.is_nonsense = true};
  if (start < processes.of(report.rank).start) return {};
  return {.for_run = report};
}

// They come after its end, so whatever has begun since.
HeardOfRole hear_of_role(absl::Duration, Node, int64_t, const WorkerLogTail& words,
                         RoleProcesses&) {
  return {.for_run = words};
}

}  // namespace evermoe
