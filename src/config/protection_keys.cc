#include "config/protection_keys.h"

#include "config/key_builders.h"

namespace evermoe {
namespace {

using C = JobConfig;
using P = ProtectionConfig;
using enum KeyScope;
constexpr int64_t kStepsMax = 1'000'000'000;
constexpr int64_t kExpertsMax = 65536;  // as model.experts
constexpr ByteRange kBytes{1024, int64_t{1} << 50};

std::vector<ConfigKey> capture_keys() {
  return {
      choice_key(
          "protection.strategy", Field{&C::protection, &P::strategy},
          {{"sparse", StrategyKind::kSparse},
           {"dense", StrategyKind::kDense},
           {"gradients", StrategyKind::kGradients},
           {"peer-memory", StrategyKind::kPeerMemory},
           {"checkfreq", StrategyKind::kCheckfreq},
           {"partial-experts", StrategyKind::kPartialExperts},
           {"none", StrategyKind::kNone}},
          kRun,
          "what is captured after a step, and which ranks go back after a loss. sparse: some "
          "operators in full after each step, all of them within a window; the lost rank's stage. "
          "dense: all operators at once; the lost rank's stage. gradients: all operators now and "
          "then, and the gradients of every step; nobody, only the step under way is repeated. "
          "peer-memory: all operators at once; everybody. checkfreq and none: nothing; everybody, "
          "to a durable checkpoint, which checkfreq saves as often as overhead_budget allows. "
          "partial-experts (LOSSY): likewise, but checkpoints hold experts_saved experts of each "
          "layer, and the others go back further"),
      integer_key("protection.copies", Field{&C::protection, &P::copies}, {0, 8}, kRun,
                  "how many peers keep a copy of each snapshot, and of gradients"),
      bytes_key("protection.memory_budget", Field{&C::protection, &P::memory_budget}, kBytes, kRun,
                "memory that a worker may use for snapshots, gradients, copies and logs"),
      auto_integer_key("protection.window", Field{&C::protection, &P::window}, {1, 1000}, kRun,
                       "sparse: length of a window, in which every operator is captured in full "
                       "once, in steps; auto: chosen from measured steps"),
      auto_integer_key("protection.window_every_steps",
                       Field{&C::protection, &P::window_every_steps}, {1, kStepsMax}, kRun,
                       "sparse: steps from the start of one window to the start of the next; auto: "
                       "the window's length"),
      integer_key("protection.dense_every_steps", Field{&C::protection, &P::dense_every_steps},
                  {1, kStepsMax}, kRun, "dense, peer-memory: steps between full snapshots"),
      integer_key(
          "protection.base_every_steps", Field{&C::protection, &P::base_every_steps},
          {1, kBaseEveryStepsMax}, kRun,
          "gradients: steps between full snapshots; the gradients of up to three more steps "
          "than that are kept"),
      number_key("protection.overhead_budget", Field{&C::protection, &P::overhead_budget},
                 {0, 1, true}, kRun,
                 "checkfreq: share of training time that durable saves may cost; they come as "
                 "often as it allows, as measured, instead of every checkpoint.every_steps"),
      integer_key("protection.experts_saved", Field{&C::protection, &P::experts_saved},
                  {1, kExpertsMax}, kRun,
                  "partial-experts: experts of each layer that a checkpoint holds at first; more "
                  "where plt_max demands it"),
      integer_key("protection.experts_in_memory", Field{&C::protection, &P::experts_in_memory},
                  {0, kExpertsMax}, kRun,
                  "partial-experts: experts of each layer that their ranks copy to their own "
                  "memory with each checkpoint, at least experts_saved; 0: all of them"),
      choice_key("protection.expert_selection", Field{&C::protection, &P::expert_selection},
                 {{"sequential", ExpertSelection::kSequential},
                  {"load-aware", ExpertSelection::kLoadAware}},
                 kRun,
                 "partial-experts: which experts a checkpoint holds. sequential: those saved "
                 "longest ago; load-aware: those that have learned from most tokens since"),
      number_key("protection.plt_max", Field{&C::protection, &P::plt_max}, {0, 1, true}, kRun,
                 "partial-experts: largest share of the run's tokens that experts may lose (PLT); "
                 "checkpoints hold more experts as it is used up; 1: they never do"),
      auto_bytes_key("protection.part_bytes", Field{&C::protection, &P::part_bytes}, kBytes, kRun,
                     "an operator with a larger snapshot is captured in parts of at most this "
                     "size; auto: chosen"),
      choice_key("protection.ordering", Field{&C::protection, &P::ordering},
                 {{"auto", CaptureOrdering::kAuto},
                  {"popularity", CaptureOrdering::kPopularity},
                  {"soft", CaptureOrdering::kSoft},
                  {"decayed", CaptureOrdering::kDecayed},
                  {"capacity", CaptureOrdering::kCapacity},
                  {"ratio", CaptureOrdering::kRatio}},
                 kRun,
                 "sparse: which operators a window captures first. popularity: the experts that "
                 "the fewest tokens chose; soft: likewise, by the sums of their gate "
                 "probabilities; decayed: likewise, with recent tokens weighing more; capacity: "
                 "likewise, relative to the number of lanes that hold them; ratio: the operators "
                 "that save the least time per byte during a catch-up; auto: the better of "
                 "popularity and ratio"),
      number_key("protection.reorder_share", Field{&C::protection, &P::reorder_share}, {0, 1, true},
                 kRun,
                 "a new capture order is made when the popularity of this share of the experts has "
                 "changed"),
      number_key("protection.reorder_change", Field{&C::protection, &P::reorder_change},
                 {0, 1, true}, kRun,
                 "the popularity of an expert has changed when it is this share more or less than "
                 "when the present order was made"),
      bytes_key("protection.copy_bandwidth", Field{&C::protection, &P::copy_bandwidth}, kBytes,
                kRun,
                "bytes per second that a worker may spend on captures and copies; captures on a "
                "GPU have no limit"),
  };
}

std::vector<ConfigKey> failure_keys() {
  return {
      number_key("protection.mtbf_seconds", Field{&C::protection, &P::mtbf_seconds}, {0, 1e9, true},
                 kRun, "expected mean time between failures of the job"),
      choice_key("protection.failure_domain", Field{&C::protection, &P::failure_domain},
                 {{"worker", FailureDomain::kWorker},
                  {"node", FailureDomain::kNode},
                  {"rack", FailureDomain::kRack}},
                 kRun, "what fails at once; copies are kept in other failure domains"),
      number_key("protection.step_deadline_medians",
                 Field{&C::protection, &P::step_deadline_medians}, {2, 1e6}, kRun,
                 "a step that takes more than this many median steps counts as hung"),
      number_key("protection.heartbeat_seconds", Field{&C::protection, &P::heartbeat_seconds},
                 {0.01, 3600}, kRun,
                 "time between two signs of life of workers, agents and controller; the limits of "
                 "silence follow from it: 6 of "
                 "them for a worker, 20 for a node or the controller, never below 1 s"),
      number_key("protection.recovery_deadline_seconds",
                 Field{&C::protection, &P::recovery_deadline_seconds}, {0.1, 86400}, kRun,
                 "longest time for a failed worker's successor to start, and to gather its state"),
  };
}

}  // namespace

std::vector<ConfigKey> protection_keys() {
  std::vector<ConfigKey> keys = capture_keys();
  for (ConfigKey& key : failure_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace evermoe
