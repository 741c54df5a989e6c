// A member's way across the boundaries of its stage, through views that come and go.
//
// In the ordinary course a message is pushed: logged, and sent to a receiver that waits for it.
// Work that was under way when a view opened, and all work that is run again, is pulled: the
// receiver asks the sender, whose log answers as soon as it has the message. So nobody needs to
// know what had arrived before the failure, or which neighbours run the same steps again.
//
// A view that ends under a call is no error of the call: it waits for the next view and goes on
// there, with the caller's graphs intact. Only a member that has to go back gets Cancelled.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "comm/idle_work.h"
#include "comm/transport/transport.h"
#include "protection/logs/boundary_log.h"
#include "recovery/member/member_views.h"
#include "recovery/member/restore/witnesses.h"
#include "recovery/protocol/message_sender.h"
#include "recovery/stage_trainer.h"

namespace evermoe {

class BoundaryExchange final : public Boundary {
 public:
  // What the exchange works with; all of it outlives the exchange.
  struct Dependencies {
    Transport& transport;
    MessageSender& sender;
    MemberViews& views;
    BoundaryLog& log;
    ReceivedBoundaries& received;
    Witnesses& witnesses;  // of messages that are computed again with other bits
    // Tells the controller of a failure in this view; called once per failed call.
    std::function<void(View, const absl::Status&)> report_trouble;
    // Other work of the training thread while a pushed message is on its way.
    IdleWork idle_work;
    absl::Duration deadline = kCallMax;
  };
  explicit BoundaryExchange(Dependencies dependencies) : in_(std::move(dependencies)) {}
  ~BoundaryExchange() override;

  // ---- training thread

  // The messages that follow belong to the work that leads to `commit`.
  void begin(Commit commit);
  absl::Status send(Rank to, BoundaryDirection direction, MicroBatch micro_batch,
                    BoundaryMessage message) override;
  void expect(Rank from, BoundaryDirection direction, MicroBatch micro_batch,
              std::span<std::byte> into, std::shared_ptr<const void> owner) override;
  absl::Status receive(Rank from, BoundaryDirection direction, MicroBatch micro_batch,
                       std::span<std::byte> into) override;
  // Waits until the transport has let go of everything pushed and expected.
  void finish();

  // ---- service thread

  void on_wanted(Rank from, View view, const BoundaryName& name);
  void on_arrived(const NamedBoundary& message);
  // A sender has computed a message again and come to these bits. Contradiction if others were
  // received.
  absl::Status on_audit(const BoundaryName& name, const Fingerprint& fingerprint) const;
  // A new view: requests and answers of the old one mean nothing any more.
  void on_view();

 private:
  struct Pushed {
    std::unique_ptr<TransportOperation> operation;
    std::shared_ptr<const void> owner;
  };

  // A receive that has been started before the trainer asks for its message.
  struct Expected {
    View view;
    std::unique_ptr<TransportOperation> operation;
    std::span<std::byte> into;
    std::shared_ptr<const void> owner;
  };

  bool is_pulled(const Plan& plan) const { return commit_ <= last_under_way(plan.newest); }
  Tag push_tag(View view, const BoundaryName& name) const;
  void answer(Rank to, View view, const BoundaryName& name, const BoundaryMessage& message);
  absl::Status pull(const Plan& plan, Rank from, const BoundaryName& name,
                    std::span<std::byte> into);
  bool take_arrived(const BoundaryName& name, std::span<std::byte> into);
  void keep_sent(const BoundaryName& name, std::span<const std::byte> now) const;
  absl::Status note_received(const BoundaryName& name, std::span<const std::byte> bytes);
  // The receive that was started for this message in `view`; null if there is none. One of another
  // view has failed with it and is given up.
  std::unique_ptr<TransportOperation> take_expected(View view, const BoundaryName& name,
                                                    std::span<std::byte> into);
  void forget_expected();
  absl::Status receive_pushed(const Plan& plan, Rank from, const BoundaryName& name,
                              std::span<std::byte> into);

  const Dependencies in_;
  Commit commit_;
  std::deque<Pushed> pushed_;
  std::map<BoundaryName, Expected> expected_;
  Mutex mutex_;
  std::optional<BoundaryName> awaited_ ABSL_GUARDED_BY(mutex_);  // by the pull under way
  std::map<BoundaryName, std::vector<std::byte>> arrived_ ABSL_GUARDED_BY(mutex_);
  // On their way as long as their bytes live: a request that is repeated meanwhile is answered.
  std::map<std::tuple<Rank, View, BoundaryName>, std::weak_ptr<const void>> answers_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace evermoe
