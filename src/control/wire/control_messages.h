// What the processes of a job say to each other.
//
//   run <---> controller <---> agent (one per node) <---> worker
//
// Streams of envelopes, one per pair, in order. Who attaches speaks first (a hello); the controller
// answers with a Welcome, which the agent hands on to its workers: everybody registers anew with
// every controller, because a controller remembers nothing of the one before.
//
// Workers speak only to their agent, which knows their processes and adds what the controller needs
// to tell them apart: Envelope::start. A role may be played by several processes in the life of a
// job, and for a moment even two of them live; the number of the start says of which one a message
// speaks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "checkpoint/write/folder_term.h"
#include "control/controller/controller_interface.h"
#include "control/controller/recovery_record.h"
#include "control/wire/worker_report.h"

namespace evermoe {

// ---- hellos

struct WorkerHello {  // worker -> agent
  pid_t pid = 0;
};
struct AgentHello {  // agent -> controller
  Node node;
  pid_t pid = 0;
};
struct RunHello {};  // run -> controller
// From a controller to everybody, who registers anew, also with one that was met before.
struct Welcome {
  int64_t life = 0;  // how many controllers the job had before this one
  FolderTerm term;   // of its run: who knows a newer one does not listen to it
};
// agent -> controller: what lives on the node has registered; the node can start workers.
struct AgentReady {};
// Both ways between controller, agents and run: the line is not silent.
struct Beat {};

// ---- agent -> controller, besides MemberJoined, MemberSaid, MemberAlive and WorkerEnded;
// WorkerReport comes from the worker and goes on to the run

struct WorkerStarted {
  Rank rank;
  View since;
  pid_t pid = 0;
};
struct WorkerLogTail {  // and controller -> run: the last lines of a worker that failed
  Rank rank;
  std::string path;
  std::vector<std::string> lines;
};

// ---- controller -> agent, besides StartWorker, KillWorker, SendOrder and EndJob

// And from the run, or an agent whose node is asked to stop, to the controller: all workers finish
// their step, save and end.
struct Drain {};

// ---- controller -> run, besides JobEvent and EndJob

struct RoleProcess {
  Rank rank;
  pid_t pid = 0;  // 0: nobody plays it
};
struct NodeLost {
  Node node;
  pid_t agent = 0;  // the one that was lost, which may live
  std::string why;
};
struct RecoveryNote {
  int index =
      0;  // among the recoveries of this controller; a later note of the same one replaces it
  absl::Duration failed =
      absl::InfiniteDuration();  // the failure itself, or the last moment before it
  RecoveryRecord record;
};

using ControlMessage =
    std::variant<Beat, WorkerHello, AgentHello, RunHello, Welcome, AgentReady, WorkerStarted,
                 MemberJoined, MemberSaid, MemberAlive, WorkerEnded, WorkerReport, WorkerLogTail,
                 StartWorker, KillWorker, SendOrder, Drain, EndJob, JobEvent, RoleProcess, NodeLost,
                 RecoveryNote>;

struct Envelope {
  int64_t start = 0;  // of the process that the message speaks of; 0 where it speaks of none
  ControlMessage message;
};

// Limits of what is accepted from the wire.
inline constexpr int32_t kRanksMax = 1 << 16;
inline constexpr size_t kListMax = 1 << 20;
inline constexpr size_t kTextBytesMax = 64 << 10;
inline constexpr size_t kEnvelopeBytesMax = 32 << 20;

}  // namespace evermoe
