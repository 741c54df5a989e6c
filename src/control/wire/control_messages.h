// What the processes of a job say to each other.
//
//   run <---> controller <---> agent (one per node) <---> worker
//   operator <----^
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
#include "control/controller/moves/move_record.h"
#include "control/controller/recovery_record.h"
#include "control/controller/status/job_status.h"
#include "control/wire/plan_update.h"
#include "control/wire/worker_report.h"

namespace evermoe {

// ---- hellos

struct WorkerHello {  // worker -> agent
  pid_t pid = 0;
};
struct AgentHello {  // agent -> controller
  Node node;
  pid_t pid = 0;
  std::string host;   // name of its machine, for people
  std::string lines;  // where other agents reach it (control/agent/agent_lines.h); empty: nowhere
  int workers = 0;    // that live there
  // Of this process: others have other ones, though they may have its pid.
  int64_t incarnation = 0;
};
struct RunHello {};  // run -> controller
// operator -> controller (`evermoe status`, move, drain, stop). Each one is answered by a
// JobStatus; who has said it may say Drain, EndJob and MoveWanted, too, and hears of the end of the
// job.
struct OperatorHello {};
// From a controller to everybody, who registers anew, also with one that was met before.
struct Welcome {
  int64_t life = 0;  // larger than those of all controllers that the job had before this one
  FolderTerm term;   // of its host: who knows a newer one does not listen to it
  // Its date when it said so, since 1970; 0: not known.
  absl::Duration wall_clock;
};
// agent -> controller: what lives on the node has registered; the node can start workers. Once more
// when it has other complaints.
struct AgentReady {
  std::string arithmetic;  // as MemberJoined's, of workers that would run there; empty: not known
  PlanName plan;           // the newest one that the agent has; view 0: none
  std::vector<std::string> complaints;  // as AgentJoined's
  StandbysKept standbys = {};
  bool is_draining = false;  // some controller has said Drain
};
// controller -> agent, agent -> agent and agent -> controller. Who has the plan answers with a
// whole PlanUpdate to nobody. An agent that has not waits for it, and ends the stream when it has a
// newer one; a controller that has told a newer one does not answer.
struct PlanWanted {
  PlanName plan;  // from a controller view 0: the newest one, whichever it is
};
// controller -> agent, instead of a whole plan: it gets it from another agent
// (control/agent/plan_exchange.h).
struct FetchPlan {
  PlanName plan;
  std::string from;         // AgentHello::lines of an agent that has the plan, or will get it
  absl::Duration patience;  // after which the agent asks the controller
  PlanUpdate rest;          // of the plan to itself: what its name leaves out; and to whom it is
};
// agent -> controller: what changes this plan can be told it.
struct PlanHeld {
  PlanName plan;
};
// controller -> agent: whether it reaches these (health/network_probe.h), answered by PartnersAsked
// when all have answered or their time is over.
struct AskPartners {
  struct Partner {
    Node node;
    std::string lines;  // AgentHello::lines
  };
  int64_t round = 0;
  absl::Duration answer_max;  // of a partner
  std::vector<Partner> partners;
};
// agent -> controller
struct PartnersAsked {
  struct Silent {
    Node node;
    std::string why;
  };
  int64_t round = 0;           // AskPartners::round
  std::vector<Silent> silent;  // who did not answer; the others did
};
// agent -> agent (agent/partner_questions.h), answered by PartnerAnswer. Both are larger than any
// packet: a line on which only small ones pass is none.
struct PartnerQuestion {
  Node asked;  // who should be there
  std::string filling;
};
struct PartnerAnswer {
  Node node;  // who is
  std::string filling;
};
// A process on a node that has given a sign of life since its agent's last Beat.
struct AliveWorker {
  int64_t start = 0;  // as Envelope::start
  MemberAlive sign;   // its newest one
};
// Both ways between controller, agents and run: the line is not silent. From an agent it is the one
// message of all that live on its node.
struct Beat {
  absl::Duration late;                 // what the sender's own timer was late
  std::vector<StarvedWorker> starved;  // agent -> controller
  std::vector<AliveWorker> alive;      // likewise, in order of their starts
};

// agent -> controller: its machine will be taken away soon. Its roles go to other nodes and it is
// told EndJob, or the whole job is drained.
struct NodeLeaves {};

// ---- agent -> controller, besides MemberJoined, MemberSaid, WorkerEnded, StandbysKept and
// JoinerReady; WorkerReport comes from the worker and goes on to the run. MemberAlive comes from
// the worker and goes no further.

struct WorkerStarted {
  Rank rank;
  View since;
  pid_t pid = 0;
  bool is_standby = false;  // it was one until now
};
struct WorkerLogTail {  // and controller -> run: the last lines of a worker that failed
  Rank rank;
  std::string path;
  std::vector<std::string> lines;
};

// ---- between an agent and its standby, which says WorkerHello first, and JoinerReady to each
// JoinerWanted that is not off

struct StandbyWarm {};  // it can take a role
// It plays this role from now on, as if it had been started for it: it ends this line and opens the
// one of a worker.
struct TakeRole {
  int64_t start = 0;  // as Envelope::start
  Rank rank;
  View since;
  FolderTerm term;       // of the run that wants it
  std::string log_path;  // where it writes
};
// agent -> worker: another process has its role. It ends this line, forgets all that it had of the
// role, and opens the line of a standby.
struct BecomeStandby {
  std::string log_path;  // where it writes from then on
};

// ---- controller -> agent, besides StartWorker, KillWorker, SendOrder (without plans), PlanUpdate,
// KeepStandbys, JoinerWanted and EndJob; agent -> worker: SendOrder

// And from the run, an operator, or an agent whose node is asked to stop, to the controller: all
// workers finish their step, save and end.
struct Drain {};

// ---- controller -> run, besides JobEvent, LanesChanged, StragglerFound, SlowLinkFound, EndJob and
// ConfirmTerm, which the run answers with TermHeld

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

struct MoveNote {
  int index = 0;  // among the moves of this controller; a later note of the same one replaces it
  MoveRecord record;
};

using ControlMessage =
    std::variant<Beat, WorkerHello, AgentHello, RunHello, Welcome, AgentReady, WorkerStarted,
                 MemberJoined, MemberSaid, MemberAlive, WorkerEnded, WorkerReport, WorkerLogTail,
                 StartWorker, KillWorker, SendOrder, PlanUpdate, PlanWanted, Drain, EndJob,
                 JobEvent, RoleProcess, NodeLost, RecoveryNote, OperatorHello, JobStatus,
                 NodeLeaves, FetchPlan, PlanHeld, AskPartners, PartnersAsked, PartnerQuestion,
                 PartnerAnswer, LanesChanged, StandbyWarm, TakeRole, StandbysKept, KeepStandbys,
                 JoinerWanted, JoinerReady, MoveWanted, MoveAnswer, MoveNote, StragglerFound,
                 SlowLinkFound, BecomeStandby, ConfirmTerm, TermHeld>;

struct Envelope {
  int64_t start = 0;  // of the process that the message speaks of; 0 where it speaks of none
  ControlMessage message;
};

// Limits of what is accepted from the wire.
inline constexpr int32_t kRanksMax = 1 << 16;
inline constexpr size_t kListMax = 1 << 20;
inline constexpr size_t kWorkersMax = kRanksMax;  // of one node: it plays each role once at most
inline constexpr size_t kTextBytesMax = 64 << 10;
inline constexpr size_t kEnvelopeBytesMax = 32 << 20;

}  // namespace evermoe
