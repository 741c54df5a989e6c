// Stands for election as a job's host, on a thread of its own, until it is destroyed: the shell of
// election_core.h.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "control/store/election_core.h"
#include "env/clock.h"

namespace evermoe {

// Called on the campaign's thread; must not block: who is no longer elected has to end in time.
struct CampaignEvents {
  std::function<void()> on_won = [] {};
  // What acts as the host has to end within ElectionOptions::margin. Called before the lease is
  // given back, if it is: who resigns ends that first.
  std::function<void(const std::string& why)> on_lost = [](const std::string&) {};
  // Where the host's controller is now, also this one's; empty: nobody hosts. After on_lost, and
  // before on_won.
  std::function<void(const std::string& address)> on_host = [](const std::string&) {};
};

class HostCampaign {
 public:
  // All outlive it.
  HostCampaign(HostStore& store, const ElectionOptions& options, Clock& clock,
               CampaignEvents events);
  // Resigns, and gives the lease back if the store can be reached.
  ~HostCampaign();
  HostCampaign(const HostCampaign&) = delete;
  HostCampaign& operator=(const HostCampaign&) = delete;

  // Any thread. False: hosting is left to others, and it resigns if it is elected.
  void stand(bool wants_to_host);

 private:
  void work();
  void tell(absl::Duration now);
  void ask(const ElectionQuestion& question);
  void note(const absl::Status& status);
  bool rest_until(absl::Duration time);

  HostStore& store_;
  Clock& clock_;
  const CampaignEvents events_;
  // The thread's.
  ElectionCore core_;
  bool is_host_ = false;
  std::string host_;
  std::string trouble_;  // said once
  Mutex mutex_;
  CondVar changed_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool wants_to_host_ ABSL_GUARDED_BY(mutex_) = true;
  bool has_changed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace evermoe
