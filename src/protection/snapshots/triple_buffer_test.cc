// An exhaustive model check: every state that events can reach, up to renaming of buffers and
// versions.
#include "protection/snapshots/triple_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>

namespace evermoe {
namespace {

using enum BufferPhase;

constexpr BufferEvent kAllEvents[] = {BufferEvent::kTick,          BufferEvent::kSnapshotDone,
                                      BufferEvent::kPersistBegin,  BufferEvent::kCommitted,
                                      BufferEvent::kPersistFailed, BufferEvent::kRestarted};

// Versions in use renamed to 1, 2, ... in order.
BufferState renamed(BufferState state) {
  std::map<int64_t, int64_t> names;
  for (const Buffer& b : state.buffers) names[b.version] = 0;
  names.erase(0);
  int64_t next = 1;
  for (auto& [version, name] : names) name = next++;
  for (Buffer& b : state.buffers) b.version = b.version == 0 ? 0 : names[b.version];
  state.next_version = next;
  return state;
}

// "CPR": the phases in use, sorted; free buffers are left out.
std::string phases(const BufferState& state) {
  std::string text;
  for (const Buffer& b : state.buffers) {
    if (b.phase != kFree) text += "?SRPC"[static_cast<int>(b.phase)];
  }
  std::sort(text.begin(), text.end());
  return text;
}

const Buffer* find(const BufferState& state, BufferPhase phase) {
  for (const Buffer& b : state.buffers) {
    if (b.phase == phase) return &b;
  }
  return nullptr;
}

// The broken rule, empty if none is.
std::string broken_rule(const BufferState& state) {
  int64_t last = 0;
  for (const BufferPhase phase : {kRecovery, kPersisting, kReady, kSnapshotting}) {
    const auto count =
        std::ranges::count_if(state.buffers, [&](const Buffer& b) { return b.phase == phase; });
    if (count > 1) return "more than one buffer in a phase";
    if (count == 0) continue;
    if (find(state, phase)->version <= last) return "versions out of order";
    last = find(state, phase)->version;
  }
  if (last >= state.next_version) return "a version from the future";
  for (const Buffer& b : state.buffers) {
    if ((b.phase == kFree) != (b.version == 0)) return "a free buffer with a version";
  }
  return "";
}

struct Reachable {
  std::set<std::string> phases;   // of all states
  std::set<std::string> blocked;  // where no snapshot can begin although none is being copied
};

// What must hold of every step of the machine.
void check_step(const BufferState& before, BufferEvent event, const BufferTransition& step) {
  ASSERT_EQ(broken_rule(step.state), "") << phases(before) << " -> " << phases(step.state);
  ASSERT_FALSE(step.reason.empty());
  if (!step.changed) {
    ASSERT_EQ(step.state, before);
    ASSERT_TRUE(step.dropped.empty());
  }
  const Buffer* recovery = find(before, kRecovery);
  if (recovery) {
    ASSERT_NE(find(step.state, kRecovery), nullptr) << "the recovery version is lost";
    ASSERT_GE(find(step.state, kRecovery)->version, recovery->version);
  }
  // A version that disappears was dropped and said so, or was the recovery one before.
  std::set<int64_t> after, gone;
  for (const Buffer& b : step.state.buffers) after.insert(b.version);
  for (const Buffer& b : before.buffers) {
    if (b.version != 0 && !after.contains(b.version) && b.phase != kRecovery)
      gone.insert(b.version);
  }
  ASSERT_EQ(std::vector<int64_t>(gone.begin(), gone.end()), step.dropped);
  ASSERT_TRUE(event != BufferEvent::kRestarted || phases(step.state).size() <= 1);
}

Reachable explore(int buffers, const BufferOptions& options) {
  Reachable reachable;
  std::set<std::vector<std::pair<int, int64_t>>> seen;
  std::deque<BufferState> queue{free_buffers(buffers)};
  while (!queue.empty()) {
    const BufferState state = queue.front();
    queue.pop_front();
    std::vector<std::pair<int, int64_t>> key;
    for (const Buffer& b : state.buffers) key.push_back({static_cast<int>(b.phase), b.version});
    if (!seen.insert(key).second) continue;
    reachable.phases.insert(phases(state));
    for (const BufferEvent event : kAllEvents) {
      const BufferTransition step = after_event(state, event, options);
      check_step(state, event, step);
      if (event == BufferEvent::kTick && !step.changed && !find(state, kSnapshotting)) {
        reachable.blocked.insert(phases(state));
      }
      queue.push_back(renamed(step.state));
    }
  }
  return reachable;
}

TEST(TripleBufferTest, ThreeBuffersReachFifteenStatesAndNeverBlock) {
  const Reachable three = explore(3, {.overwrite_ready = true});
  // Every set of at most three of C, P, R, S.
  EXPECT_EQ(three.phases, (std::set<std::string>{"", "C", "P", "R", "S", "CP", "CR", "CS", "PR",
                                                 "PS", "RS", "CPR", "CPS", "CRS", "PRS"}));
  EXPECT_TRUE(three.blocked.empty());
}

TEST(TripleBufferTest, TwoBuffersBlockWhileTheSecondVersionPersists) {
  EXPECT_EQ(explore(2, {.overwrite_ready = true}).blocked, (std::set<std::string>{"CP"}));
}

TEST(TripleBufferTest, WithoutOverwritingFourAreNeeded) {
  EXPECT_EQ(explore(3, {.overwrite_ready = false}).blocked, (std::set<std::string>{"CPR"}));
  const Reachable four = explore(4, {.overwrite_ready = false});
  EXPECT_TRUE(four.blocked.empty());
  EXPECT_EQ(four.phases.size(), 16u);
}

// A small language for one run.
class Buffers {
 public:
  Buffers& on(BufferEvent event) {
    last_ = after_event(state_, event, {});
    state_ = last_.state;
    return *this;
  }
  const BufferTransition& last() const { return last_; }

 private:
  BufferState state_ = free_buffers(3);
  BufferTransition last_;
};

TEST(TripleBufferTest, ASlowStorageSkipsVersions) {
  using enum BufferEvent;
  Buffers run;
  run.on(kTick).on(kSnapshotDone).on(kPersistBegin).on(kCommitted);  // 1 is the recovery version
  run.on(kTick).on(kSnapshotDone).on(kPersistBegin);                 // 2 is on its way
  run.on(kTick).on(kSnapshotDone);                                   // 3 waits
  run.on(kTick);                                                     // 4 takes its buffer
  EXPECT_EQ(run.last().dropped, (std::vector<int64_t>{3}));
  EXPECT_EQ(run.last().reason, "buffer 2 (version 4) begins a snapshot, version 3 is dropped");
  run.on(kTick);
  EXPECT_FALSE(run.last().changed);
  EXPECT_EQ(run.last().reason, "a snapshot is still being copied");
  run.on(kCommitted);
  EXPECT_EQ(run.last().reason, "buffer 1 (version 2) is durable on all ranks");
  run.on(kTick).on(kSnapshotDone).on(kPersistBegin).on(kPersistFailed);
  EXPECT_EQ(run.last().dropped, (std::vector<int64_t>{4}));
  run.on(kTick).on(kRestarted);
  EXPECT_EQ(run.last().dropped, (std::vector<int64_t>{5}));
  EXPECT_EQ(phases(run.last().state), "C");
  EXPECT_FALSE(run.on(kCommitted).last().changed);
}

TEST(TripleBufferTest, ANewerReadyVersionReplacesAnOlderOne) {
  using enum BufferEvent;
  Buffers run;
  run.on(kTick).on(kSnapshotDone).on(kTick).on(kSnapshotDone);
  EXPECT_EQ(run.last().dropped, (std::vector<int64_t>{1}));
  EXPECT_EQ(phases(run.last().state), "R");
}

}  // namespace
}  // namespace evermoe
