// Whole plans that agents get from each other: what this agent asks another one for, and what
// others ask it for. Pure: events and time in, actions out.
//
//   controller --FetchPlan--> agent --PlanWanted--> the agent named there
//                                   <--PlanUpdate--
//                               |  refused, broken, late, another plan
//                               +----PlanWanted----> controller --PlanUpdate--> agent
//
// A plan is the one wanted if its fingerprint is the one that the controller named, whoever tells
// it. Getting it from agents can delay a view by FetchPlan::patience, no more.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"

namespace evermoe {

struct AskForPlan {  // on a new line to another agent, instead of the present one
  std::string at;
  PlanName plan;
};
struct StopAsking {  // ends that line
  std::string why;   // it is of no use; empty: nothing more is wanted
};
struct CutAsker {
  StreamNumber stream;
};
struct TellPlan {  // the one that this agent has, whole
  std::vector<StreamNumber> to;
};
struct AskController {
  PlanName plan;
};
using PlanAction = std::variant<AskForPlan, StopAsking, CutAsker, TellPlan, AskController>;
using PlanActions = std::vector<PlanAction>;

class PlanExchange {
 public:
  // Askers that are waiting or reading; more are cut off and ask the controller.
  static constexpr size_t kAskersMax = 64;
  // From the question until the line ends: the asker has given up long before.
  static constexpr absl::Duration kAskerMax = absl::Seconds(30);

  struct Fetched {
    Plan plan;
    std::vector<PlanUpdate::Addressee> to;
  };

  // ---- what this agent wants

  PlanActions fetch(absl::Duration now, const FetchPlan& order);
  bool is_fetching() const { return fetch_.has_value(); }
  // What came, from the agent asked or from the controller: the plan if it is the one wanted,
  // which ends the fetching.
  std::optional<Fetched> take(const Plan& plan);
  // The agent asked is gone, or tells something else.
  PlanActions give_up(const std::string& why);
  // Nobody needs the plan any more if it is older than `view`.
  PlanActions forget_before(View view);
  PlanActions forget() { return forget_before(View(UINT32_MAX)); }

  // ---- what others want

  // `have`: the newest plan here.
  PlanActions on_asked(absl::Duration now, StreamNumber asker, PlanName wanted, PlanName have);
  void on_asker_gone(StreamNumber asker) { askers_.erase(asker); }
  bool is_anybody_waiting() const;
  PlanActions on_plan(PlanName have);

  PlanActions on_time(absl::Duration now);
  absl::Duration next_due() const;

 private:
  struct Fetch {
    FetchPlan order;
    absl::Duration due;
    bool is_controller_asked = false;
  };
  struct Asker {
    PlanName wanted;
    absl::Duration until;
    bool is_told = false;
  };
  std::optional<Fetch> fetch_;
  std::map<StreamNumber, Asker> askers_;
};

}  // namespace evermoe
