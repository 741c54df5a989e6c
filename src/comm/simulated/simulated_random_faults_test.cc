// Ranks that exchange numbers in rounds while processes are killed, stopped and cut at random. An
// agent replaces the dead and announces views; a view that all finish after the last fault is the
// end.
#include <map>
#include <set>

#include "comm/simulated/simulated_network_testing.h"

namespace evermoe {
namespace {

class RandomFaultTest : public SimulatedNetworkTest {
 protected:
  static constexpr int kRanks = 4;
  static constexpr int kRounds = 5;
  static constexpr int kFaults = 10;
  static constexpr Tag kDoorbell{View(0), 100, 0};  // from the listening thread to the other one

  Fingerprint play(uint64_t seed);
  void announce();
  void launch(int rank);
  void inject();
  void listen(Transport& transport);
  void live(Transport& transport);
  absl::Status exchange(Transport& transport, uint32_t view);

  ProcessNumber random_process() { return process_[network_->draw(kRanks)]; }

  uint32_t view_ = 0;
  std::map<uint32_t, std::vector<PeerAddress>> tables_;
  std::map<ProcessNumber, uint32_t> newest_;  // view that a process has heard of
  std::set<Rank> finished_;                   // the present view
  int injected_ = 0;
};

void RandomFaultTest::announce() {
  tables_[++view_] = table_;
  finished_.clear();
  for (const ProcessNumber process : process_) network_->deliver(process, service_tag(view_), {});
}

void RandomFaultTest::launch(int rank) {
  const ProcessNumber process = start(rank,
                                      {[this](Transport& transport) { live(transport); },
                                       [this](Transport& transport) { listen(transport); }},
                                      view_ + 1);
  network_->on_end(process, [this, rank] {
    launch(rank);
    announce();
  });
}

void RandomFaultTest::inject() {
  const ProcessNumber victim = random_process();
  const absl::Duration later = absl::Microseconds(network_->draw(20'000));
  switch (network_->draw(3)) {
    case 0: network_->kill(victim); break;
    case 1:
      network_->stop(victim);
      network_->after(later, [this, victim] { network_->go_on(victim); });
      break;
    default: {
      const ProcessNumber other = random_process();
      if (victim == other) break;
      network_->cut(victim, other);
      network_->after(later, [this, victim] {
        for (PeerAddress& entry : table_) {
          if (entry.address == SimulatedNetwork::address(victim)) entry.since = View(view_ + 1);
        }
        announce();
      });
    }
  }
  if (++injected_ == kFaults) network_->after(absl::Milliseconds(50), [this] { announce(); });
}

// Hears of new views, ends the work of the former ones and wakes the other thread.
void RandomFaultTest::listen(Transport& transport) {
  const ProcessNumber own = *network_->running_process();
  for (auto service_message = transport.receive_service_message(kForEver); service_message.ok();
       service_message = transport.receive_service_message(kForEver)) {
    EXPECT_GT(service_message->tag.purpose, newest_[own]);
    newest_[own] = service_message->tag.purpose;
    transport.revoke({0, 99}, View(newest_[own] - 1), Cancelled("there is a newer view"));
    send(transport, transport.rank().value, kDoorbell, {}).IgnoreError();
  }
}

void RandomFaultTest::live(Transport& transport) {
  const ProcessNumber own = *network_->running_process();
  for (uint32_t view = 0; true;) {
    while (newest_[own] == view) {
      if (!receive(transport, transport.rank().value, kDoorbell, {}).ok()) return;
    }
    view = newest_[own];
    if (!transport.set_peers(tables_[view]).ok()) continue;
    if (!exchange(transport, view).ok() || view != view_) continue;
    finished_.insert(transport.rank());
    if (finished_.size() == kRanks && injected_ == kFaults && newest_[own] > 1) network_->end();
  }
}

absl::Status RandomFaultTest::exchange(Transport& transport, uint32_t view) {
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (int to = 0; to < kRanks; ++to) {
      const int64_t number = 1000 * view + 10 * round + static_cast<uint32_t>(to);
      RETURN_IF_ERROR(send_number(transport, to, tag(round, view), number));
    }
    for (int from = 0; from < kRanks; ++from) {
      ASSIGN_OR_RETURN(const int64_t number, receive_number(transport, from, tag(round, view)));
      EXPECT_EQ(number, 1000 * view + 10 * round + static_cast<uint32_t>(transport.rank().value));
    }
  }
  return absl::OkStatus();
}

Fingerprint RandomFaultTest::play(uint64_t seed) {
  make(kRanks, {.seed = seed,
                .eager_bytes_max = seed % 2 == 0 ? size_t{4} : size_t{64},
                .time_max = absl::Hours(1)});
  view_ = 0;
  injected_ = 0;
  tables_.clear();
  newest_.clear();
  for (int rank = 0; rank < kRanks; ++rank) launch(rank);
  announce();
  for (int i = 0; i < kFaults; ++i) {
    network_->after(absl::Microseconds(network_->draw(200'000)), [this] { inject(); });
  }
  EXPECT_TRUE(network_->run()) << "seed " << seed << ": " << network_->waiting();
  return network_->transcript();
}

TEST_F(RandomFaultTest, RandomFaultsLeaveAWorkingJob) {
  std::set<Fingerprint> transcripts;
  for (uint64_t seed = 0; seed < 200; ++seed) transcripts.insert(play(seed));
  EXPECT_EQ(transcripts.size(), 200u) << "another seed is another course";
}

TEST_F(RandomFaultTest, TheSameSeedIsTheSameCourse) {
  for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(play(seed), play(seed));
}

}  // namespace
}  // namespace evermoe
