#include "config/protection_keys.h"

#include "config/key_builders.h"

namespace evermoe {
namespace {

using C = JobConfig;
using P = ProtectionConfig;
constexpr auto kRun = KeyScope::kRun;
constexpr int64_t kStepsMax = 1'000'000'000;
constexpr ByteRange kBytes{1024, int64_t{1} << 50};

std::vector<ConfigKey> capture_keys() {
  return {
      choice_key("protection.strategy", Field{&C::protection, &P::strategy},
                 {{"sparse", ProtectionStrategy::kSparse},
                  {"dense", ProtectionStrategy::kDense},
                  {"none", ProtectionStrategy::kNone}},
                 kRun,
                 "what is captured after a step: a part of the operators in full, so that a window has "
                 "all; all operators; nothing"),
      integer_key("protection.copies", Field{&C::protection, &P::copies}, {0, 8}, kRun,
                  "copies of each snapshot that peers keep"),
      bytes_key("protection.memory_budget", Field{&C::protection, &P::memory_budget}, kBytes, kRun,
                "most memory of a worker for snapshots, copies and logs"),
      auto_integer_key("protection.window", Field{&C::protection, &P::window}, {1, 1000}, kRun,
                       "sparse: steps in which every operator is captured in full once"),
      auto_integer_key("protection.window_every_steps", Field{&C::protection, &P::window_every_steps}, {1, kStepsMax}, kRun,
                       "sparse: steps from the beginning of a window to that of the next; auto: as many as it has"),
      integer_key("protection.dense_every_steps", Field{&C::protection, &P::dense_every_steps},
                  {1, kStepsMax}, kRun, "dense: steps between full snapshots"),
      auto_bytes_key("protection.part_bytes", Field{&C::protection, &P::part_bytes}, kBytes, kRun,
                     "an operator whose snapshot is larger is captured in parts of at most so many bytes"),
      choice_key("protection.ordering", Field{&C::protection, &P::ordering},
                 {{"auto", CaptureOrdering::kAuto},
                  {"popularity", CaptureOrdering::kPopularity},
                  {"soft", CaptureOrdering::kSoft},
                  {"decayed", CaptureOrdering::kDecayed},
                  {"capacity", CaptureOrdering::kCapacity},
                  {"ratio", CaptureOrdering::kRatio}},
                 kRun,
                 "sparse: which operators of a window come first: experts that few tokens choose "
                 "(counted; by gate probability; mostly of late; over the lanes that hold them), what saves "
                 "least time per byte by the tokens counted, or what is better of the first and the last"),
      number_key("protection.reorder_share", Field{&C::protection, &P::reorder_share}, {0, 1, true},
                 kRun, "a new order is made when this share of the experts have changed"),
      number_key("protection.reorder_change", Field{&C::protection, &P::reorder_change},
                 {0, 1, true}, kRun,
                 "an expert has changed when its popularity differs from the last order's by more than this "
                 "share of what it was"),
      bytes_key("protection.copy_bandwidth", Field{&C::protection, &P::copy_bandwidth}, kBytes, kRun,
                "bytes per second that a worker may use for captures and copies"),
  };
}

std::vector<ConfigKey> failure_keys() {
  return {
      number_key("protection.mtbf_seconds", Field{&C::protection, &P::mtbf_seconds}, {0, 1e9, true},
                 kRun, "expected time between two failures of the job"),
      choice_key("protection.failure_domain", Field{&C::protection, &P::failure_domain},
                 {{"worker", FailureDomain::kWorker},
                  {"node", FailureDomain::kNode},
                  {"rack", FailureDomain::kRack}},
                 kRun, "what is lost at once; copies go to peers in other ones"),
      number_key("protection.step_deadline_medians",
                 Field{&C::protection, &P::step_deadline_medians}, {2, 1e6}, kRun,
                 "a step that takes more than so many median steps counts as hung"),
      number_key("protection.heartbeat_seconds", Field{&C::protection, &P::heartbeat_seconds},
                 {0.01, 3600}, kRun, "time between two signs of life of a worker"),
      number_key("protection.recovery_deadline_seconds",
                 Field{&C::protection, &P::recovery_deadline_seconds}, {0.1, 86400}, kRun,
                 "longest time for a lost role to come up again, and for its state to be gathered"),
  };
}

}  // namespace

std::vector<ConfigKey> protection_keys() {
  std::vector<ConfigKey> keys = capture_keys();
  for (ConfigKey& key : failure_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace evermoe
