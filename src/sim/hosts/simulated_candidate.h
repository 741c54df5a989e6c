// A node that stands for election as the host, in a simulated job: does with a SimulatedStore what
// HostCampaign does with a HostStore (control/store/host_campaign.h). The decisions are the real
// ElectionCore's.
#pragma once

#include <functional>
#include <string>

#include "control/store/election_core.h"
#include "sim/control_shells.h"
#include "sim/hosts/simulated_store.h"

namespace evermoe {

class SimulatedCandidate final : public ControlShell {
 public:
  struct Options {
    ElectionOptions election;
    absl::Duration answer_max;  // of one question
    absl::Duration answer_min;
  };
  // As in CampaignEvents.
  struct Events {
    std::function<void()> on_won;
    std::function<void(const std::string& why)> on_lost;
    std::function<void(const std::string& address)> on_host;
  };
  SimulatedCandidate(SimulatedNetwork& time, ControlNetwork& network, Machine machine,
                     SimulatedStore& store, const Options& options, Events events);

  // As HostCampaign::stand().
  void stand(bool wants_to_host);
  // By its own clock.
  bool holds() const { return core_.holds(now()); }
  const std::string& address() const { return core_.address(); }
  Machine machine() const { return machine_; }

 private:
  using Kind = ElectionQuestion::Kind;
  void take(const Arrived&) override {}
  void on_time() override;
  absl::Duration next_deadline() const override;
  void tell();
  void ask(const ElectionQuestion& question);
  void hear(const StoreAnswer& answer);

  SimulatedStore& store_;
  const Options options_;
  const Events events_;
  const Machine machine_;
  ElectionCore core_;
  bool is_host_ = false;
  std::string host_;
  // The question that waits for its answer; kNone: none does. Answers to others are nothing.
  ElectionQuestion question_;
  int64_t number_ = 0;
  absl::Duration asked_, gives_up_;
  absl::Duration rests_until_;
};

}  // namespace evermoe
