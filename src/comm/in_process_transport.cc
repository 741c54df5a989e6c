#include "comm/in_process_transport.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "comm/in_process_scheduler.h"

namespace evermoe {
namespace {

// How long done() lets others run: virtual, so that a loop around done() passes time.
constexpr absl::Duration kPoll = absl::Microseconds(1);

}  // namespace

class InProcessCluster::RankTransport final : public Transport {
 public:
  RankTransport(Rank rank, Scheduler& scheduler) : rank_(rank), scheduler_(scheduler) {}

  Rank rank() const override { return rank_; }
  int size() const override { return scheduler_.size(); }

  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override {
    auto send = std::make_unique<PendingOperation>(PendingOperation::Kind::kSend, to, tag);
    send->source = bytes;
    const absl::Status able = scheduler_.begin_call(rank_, "send", to, tag, bytes.size());
    if (able.ok()) {
      scheduler_.send(rank_, *send);
      scheduler_.offer_switch(rank_);
    } else {
      send->finish(able);
    }
    return send;
  }

  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override {
    auto receive = std::make_unique<PendingOperation>(PendingOperation::Kind::kReceive, from, tag);
    receive->target = into;
    const absl::Status able = scheduler_.begin_call(rank_, "receive", from, tag, into.size());
    if (able.ok()) {
      scheduler_.receive(rank_, *receive);
      scheduler_.offer_switch(rank_);
    } else {
      receive->finish(able);
    }
    return receive;
  }

  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) override {
    auto& pending = static_cast<PendingOperation&>(*operation);
    const absl::Status able = scheduler_.begin_call(rank_, "wait", pending.peer, pending.tag, 0);
    if (able.ok() && !pending.finished) scheduler_.block(rank_, pending, timeout);
    if (!pending.finished) {
      scheduler_.withdraw(rank_, pending);
      pending.finish(timeout_of(pending, timeout));
    }
    return able.ok() ? pending.status : able;
  }

  bool done(TransportOperation& operation) override {
    auto& pending = static_cast<PendingOperation&>(operation);
    const absl::Status able = scheduler_.begin_call(rank_, "done", pending.peer, pending.tag, 0);
    if (able.ok() && !pending.finished) scheduler_.block(rank_, pending, kPoll);
    return !able.ok() || pending.finished;
  }

  absl::StatusOr<Letter> receive_letter(absl::Duration) override { return Unsupported("letters"); }
  absl::Status meet(const std::vector<PeerAddress>&, absl::Duration) override { return Unsupported("meet"); }
  using Transport::revoke;
  void revoke(GroupRange, View view, absl::Status reason) override {
    const absl::Status able = scheduler_.begin_call(rank_, "revoke", rank_, Tag{view}, 0);
    if (able.ok()) scheduler_.revoke(rank_, view, reason);
  }

  void close() override {
    const absl::Status able = scheduler_.begin_call(rank_, "close", rank_, {}, 0);
    if (able.ok()) scheduler_.say_goodbye(rank_);
  }

 private:
  const Rank rank_;
  Scheduler& scheduler_;
};

InProcessCluster::InProcessCluster(int size, InProcessOptions options)
    : scheduler_(std::make_unique<Scheduler>(size, std::move(options))) {}

InProcessCluster::~InProcessCluster() = default;

void InProcessCluster::run(const Body& body) {
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < scheduler_->size(); ++i) {
    threads.emplace_back([this, &body, rank = Rank(i)] {
      scheduler_->take_baton(rank);
      {
        RankTransport transport(rank, *scheduler_);
        body(rank, transport);
      }
      scheduler_->leave(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Fingerprint InProcessCluster::transcript() const { return scheduler_->transcript(); }
absl::Duration InProcessCluster::now() const { return scheduler_->now(); }
int64_t InProcessCluster::calls(Rank rank) const { return scheduler_->calls(rank); }

}  // namespace evermoe
