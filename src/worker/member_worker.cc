#include "worker/member_worker.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/exit_codes.h"
#include "base/log.h"
#include "base/mutex.h"
#include "checkpoint/write/folder_term.h"
#include "checkpoint/write/publisher_claim.h"
#include "comm/transport/job_transport.h"
#include "comm/transport/watched_transport.h"
#include "config/job_strategy.h"
#include "config/job_topology.h"
#include "control/wire/incident_lines.h"
#include "env/clock.h"
#include "faults/injected_faults.h"
#include "recovery/member/member.h"
#include "recovery/plan/protection_memory.h"
#include "recovery/plan/window_choice.h"
#include "recovery/protocol/joiner_seats.h"
#include "tensor/arithmetic_identity.h"
#include "train/step/trainer.h"
#include "worker/fault_injector.h"
#include "worker/joiner_process.h"
#include "worker/worker_device.h"
#include "worker/worker_reporter.h"

namespace evermoe {
namespace {

OrderingOptions ordering_options(const ProtectionConfig& protection) {
  OrderingOptions options;
  switch (protection.ordering) {
    case CaptureOrdering::kAuto: options.by = OrderBy::kExpectedCost; break;
    case CaptureOrdering::kPopularity: options.by = OrderBy::kPopularity; break;
    case CaptureOrdering::kSoft: options.by = OrderBy::kSoft; break;
    case CaptureOrdering::kDecayed: options.by = OrderBy::kDecayed; break;
    case CaptureOrdering::kCapacity: options.by = OrderBy::kCapacity; break;
    case CaptureOrdering::kRatio: options.by = OrderBy::kRatio; break;
  }
  options.reorder = {100 * protection.reorder_share, 100 * protection.reorder_change};
  return options;
}

WindowConditions window_conditions(const JobConfig& config, const StageTrainer& trainer,
                                   int slots_max) {
  const auto stages = static_cast<double>(config.parallel.lanes.size());
  const auto micro_batches = static_cast<double>(config.train.micro_batches);
  WindowConditions conditions;
  conditions.copy_bytes_per_second = static_cast<double>(config.protection.copy_bandwidth);
  conditions.log_bytes = trainer.boundary_bytes();
  conditions.recovery.stage_share = micro_batches / (micro_batches + stages - 1);
  conditions.recovery.lag_steps = 1;
  // Failures of the job hit its stages in turns.
  conditions.recovery.mtbf_seconds = stages * config.protection.mtbf_seconds;
  conditions.slots_max = slots_max;
  return conditions;
}

// Of an operator of the stage as it is: what this lane may come to hold of it when experts move, on
// average.
OperatorBytes bytes_when_moved(const StageOperator& op, const JobConfig& config) {
  if (!moves_experts(config) || op.expert < 0) return op.bytes;
  const auto lanes = static_cast<int>(std::ranges::min(config.parallel.lanes));
  const int64_t held =
      slots_of_lane(balance_options(config), static_cast<int>(config.model.experts), lanes);
  const auto share = [&](int64_t whole) {
    return (whole * held + config.model.experts - 1) / config.model.experts;
  };
  return {share(op.whole.full), share(op.whole.compute), share(op.whole.gradients)};
}

// How many times as much a lane may come to hold, and to send, when others rest.
int64_t growth_of(const JobConfig& config) {
  const std::vector<int> narrowest = narrowest_lanes(config);
  int64_t growth = 1;
  for (size_t stage = 0; stage < narrowest.size(); ++stage) {
    const int64_t lanes = config.parallel.lanes[stage], least = narrowest[stage];
    growth = std::max(growth, (lanes + least - 1) / least);
  }
  return growth;
}

// As many slots as there is memory for. InvalidInput with the arithmetic if there is none for one.
absl::Status fit_into_budget(const JobConfig& config, const StageTrainer& trainer,
                             MemberOptions& options) {
  const ProtectionConfig& protection = config.protection;
  const int64_t growth = growth_of(config);
  std::vector<OperatorBytes> operators;
  for (const StageOperator& op : trainer.operators()) {
    const OperatorBytes bytes = bytes_when_moved(op, config);
    operators.push_back({growth * bytes.full, growth * bytes.compute, growth * bytes.gradients});
  }
  CaptureRule& captures = options.strategy.captures;
  captures.slots = std::min(captures.slots, static_cast<int>(operators.size()));
  const int copies = static_cast<int>(protection.copies);
  const MemoryConditions conditions{options.strategy, copies, growth * trainer.boundary_bytes()};
  captures.slots_max = longest_window(operators, conditions, protection.memory_budget);
  if (captures.slots_max < captures.slots) {
    log_warning(absl::StrCat("windows of ", captures.slots,
                             " slots do not fit into protection.memory_budget; at most ",
                             captures.slots_max, " do"));
  }
  // Longer ones would be cut before they are complete.
  if (moves_experts(config))
    captures.slots_max = static_cast<int>(
        std::min<int64_t>(captures.slots_max, config.experts.rebalance_every_steps));
  const int slots = std::clamp(captures.slots, 1, std::max(1, captures.slots_max));
  const MemoryNeed need = memory_need(operators, slots, conditions);
  RETURN_IF_ERROR(check_budget(need, protection.memory_budget, slots, copies));
  // What the arithmetic leaves is shared out in its proportions.
  options.log_bytes_max = protection.memory_budget - need.snapshots - need.gradients - need.copies;
  options.snapshot_bytes_max = protection.memory_budget - need.log;
  return absl::OkStatus();
}

// Without copies nothing can be made smaller: the messages of the steps under way take what they
// take.
int64_t log_bytes_without_copies(const JobConfig& config, const Strategy& strategy,
                                 const StageTrainer& trainer) {
  const MemoryConditions conditions{strategy, 0, growth_of(config) * trainer.boundary_bytes()};
  return std::max(config.protection.memory_budget, memory_need({}, 1, conditions).log);
}

absl::StatusOr<MemberOptions> member_options(const JobConfig& config, const StageTrainer& trainer,
                                             bool is_rehearsal) {
  MemberOptions options;
  options.strategy = strategy_of(config);
  options.ordering = ordering_options(config.protection);
  options.is_rehearsal = is_rehearsal;
  options.copies.bytes_per_second = static_cast<double>(config.protection.copy_bandwidth);
  const double probe_seconds = config.stragglers.probe_seconds;
  options.probes.pause =
      probe_seconds > 0 ? absl::Seconds(probe_seconds) : absl::InfiniteDuration();
  if (options.strategy.keeps_copies())
    RETURN_IF_ERROR(fit_into_budget(config, trainer, options));
  else
    options.log_bytes_max = log_bytes_without_copies(config, options.strategy, trainer);
  return options;
}

// The same Contradiction with more words.
absl::Status append(const absl::Status& contradiction, const std::string& words) {
  return Contradiction(absl::StrCat(contradiction.message(), words));
}

// Everything that a worker consists of, in the order of construction.
class MemberProcess {
 public:
  MemberProcess(const WorkerOptions& options, const JobConfig& config, ControlClient& client,
                Inheritance inherited)
      : options_(options),
        config_(config),
        topology_(topology_of(config)),
        client_(client),
        term_(options.term),
        publisher_claim_(real_files(), options.out, options.term, options.start),
        device_(std::move(inherited.device)),
        inherited_(std::move(inherited.chunks)) {
    if (options.rank != Rank(0)) return;
    worker_reporter_.emplace([this](WorkerReport report) { client_.report(std::move(report)); },
                             real_files(), options.out);
  }

  absl::Status prepare(const TokenParts& tokens, const std::function<bool()>& drain_requested) {
    ASSIGN_OR_RETURN(const JobTransportOptions transport, transport_options(options_, config_));
    ASSIGN_OR_RETURN(listener_, listen_job(transport));
    ASSIGN_OR_RETURN(
        transport_,
        listener_->open(options_.rank, seats_of_job(topology_.world_size()), options_.since));
    TrainerEnvironment environment;
    const auto sent = std::make_shared<SentTraffic>();
    stage_transport_ =
        std::make_unique<WatchedTransport>(*transport_, kStageGroups, real_clock(), sent);
    if (!device_) {
      ASSIGN_OR_RETURN(device_, take_device(config_, real_clock()));
    }
    RETURN_IF_ERROR(check_device_memory(config_, options_.rank, device_->device));
    environment.device = device_->device;
    environment.transport = stage_transport_.get();
    environment.files = &real_files();
    environment.checkpoint_directory = options_.out + "/checkpoints";
    environment.local_directory = config_.checkpoint.local_directory_of(options_.node);
    environment.term = [this] { return term(); };
    environment.may_write = [this] { return check_job(real_files(), options_.out, term()); };
    environment.may_publish = [this] { return publisher_claim_.hold(); };
    environment.save_failed = [this](Step step, const absl::Status& why) {
      client_.report({.kind = WorkerReport::Kind::kSaveFailed,
                      .step = step,
                      .text = std::string(why.message())});
    };
    environment.divergence_file = options_.out + "/divergence.json";
    environment.forensics_directory = options_.out + "/forensics";
    environment.node = options_.node;
    environment.examined = [this](Step step, int32_t node, bool is_reproduced,
                                  const std::string& what) {
      client_.send(Examined{options_.rank, step, node, is_reproduced, what});
    };
    environment.training = tokens.training;
    environment.validation = tokens.validation;
    ASSIGN_OR_RETURN(trainer_,
                     Trainer::create(config_, environment, {.drain_requested = drain_requested}));
    ASSIGN_OR_RETURN(MemberOptions member,
                     member_options(config_, *trainer_, !options_.faults.empty()));
    member.time_waited = [this] { return stage_transport_->time_waited(); };
    member.sent = sent;
    keeps_copies_ = member.strategy.keeps_copies();
    if (keeps_copies_ && member.strategy.captures.is_measured) {
      chooser_.emplace(window_conditions(config_, *trainer_, member.strategy.captures.slots_max));
      member.wanted_slots = [this](const OperatorOrdering& ordering) {
        return chooser_->wanted(ordering);
      };
    }
    member_ = std::make_unique<Member>(topology_, *transport_, *trainer_, client_, real_clock(),
                                       std::move(member), observer());
    member_->inherit(std::exchange(inherited_, {}));
    return options_.faults.empty() ? absl::OkStatus() : arm_faults();
  }

  absl::Status run() {
    client_.attach({.describe = [this] { return describe(); },
                    .entered = [this] { return member_->views().entered_view(); },
                    .waits = [this] { return stage_transport_->is_waited_in(); },
                    .take_step_times = [this] { return member_->take_step_times(); },
                    .take_link_times = [this] { return member_->take_link_times(); },
                    .on_term = [this](const FolderTerm& term) { note_term(term); },
                    .on_registered = [this] { member_->repeat_trouble(); },
                    .on_order = [this](ControllerMessage order) { receive(std::move(order)); },
                    .on_lost =
                        [](const std::string& why) {
                          log_error("the agent is gone: " + why);
                          _exit(1);
                        }},
                   absl::Seconds(config_.protection.heartbeat_seconds));
    absl::Status served;
    std::thread service([&] { served = member_->serve(); });
    const absl::Status trained = member_->train();
    service.join();
    client_.detach();  // orders go to the transport, which closes below
    const absl::Status ended = trained.ok() || is_contradiction(served) ? served : trained;
    if (is_contradiction(ended)) return with_witnesses(ended);
    RETURN_IF_ERROR(ended);
    tell_published();
    if (worker_reporter_) RETURN_IF_ERROR(worker_reporter_->close());
    WorkerReport finished{.kind = WorkerReport::Kind::kFinished, .step = trainer_->step()};
    finished.drained = trainer_->is_drained();
    client_.report(finished);
    transport_->close();
    return absl::OkStatus();
  }

 private:
  // Before anybody is told: with the word of it the job ends, and this process with it.
  absl::Status with_witnesses(const absl::Status& contradiction) const {
    const std::string name = topology_.name_of(options_.rank);
    absl::Status error = annotate(contradiction, absl::StrCat("role ", name));
    const auto plan = member_->views().plan();
    if (plan != nullptr && !plan->restart_all) {
      const Step from = plan->window >= Step(0) ? plan->window : plan->base;
      error = append(
          error, absl::StrCat("; checkpoints after step ", from.value, " may have the wrong ones"));
    }
    const std::string folder = absl::StrCat(name, "-step-", trainer_->step().value);
    const absl::Status kept = member_->witnesses().write(real_files(), options_.out, folder,
                                                         std::string(error.message()));
    return append(error, kept.ok() ? absl::StrCat("; witnesses in ", options_.out, "/",
                                                  kContradictionFolder, "/", folder)
                                   : absl::StrCat("; the witnesses are lost: ", kept.message()));
  }

  absl::Status arm_faults() {
    const Role role = topology_.role_of(options_.rank);
    FaultInjectorOptions injector;
    injector.script = options_.faults;
    injector.injected = injected_faults_path(options_.faults);
    injector.control = options_.out + "/control.json";
    injector.role = {role.stage, role.lane};
    injector.node = options_.node;
    injector.is_newcomer = options_.since > View(1);
    injector.job_began = absl::Seconds(options_.faults_began);
    FaultActions actions;
    actions.step = [this] { return trainer_->step(); };
    // Fault scripts count the recoveries of each controller from 1.
    actions.recovery = [this] {
      return static_cast<int>(member_->incident_under_way() % kIncidentsOfController);
    };
    actions.cut = [this](FaultRole other) {
      transport_->cut(topology_.rank_of({other.stage, other.lane}));
    };
    actions.waits = [this] {
      return stage_transport_->is_waited_in() || member_->waits_for_world();
    };
    actions.corrupt_copies = [this] { member_->corrupt_copies_at_holders(); };
    actions.corrupt_state = [this] { member_->corrupt_state(); };
    actions.corrupt_result = [this] { trainer_->corrupt_result(); };
    actions.poison = [this](int64_t begin, int64_t end) { trainer_->poison(begin, end); };
    const FaultLimits limits{{config_.parallel.lanes.begin(), config_.parallel.lanes.end()},
                             static_cast<int>(config_.run.nodes + config_.run.spares)};
    ASSIGN_OR_RETURN(injector_, FaultInjector::arm(real_files(), real_clock(), std::move(injector),
                                                   limits, std::move(actions)));
    return absl::OkStatus();
  }

  MemberJoined describe() const {
    const MemberViews& views = member_->views();
    const auto plan = views.plan();
    MemberJoined joined;
    joined.address = listener_->address();
    joined.newest_view = views.newest_view();
    joined.is_open = plan != nullptr && plan->view == joined.newest_view;
    joined.has_finished = views.standing().is_finished;
    joined.stage_epoch = views.standing().stage_epoch;
    joined.newest = member_->newest_commit();
    joined.arithmetic = arithmetic_identity(device_->device);
    return joined;
  }

  MemberObserver observer() {
    MemberObserver observer;
    observer.on_step = [this](const Record& record, Step) {
      const absl::Duration now = real_clock().now();
      if (chooser_) {
        chooser_->add_step(absl::ToDoubleSeconds(now - step_began_),
                           absl::ToDoubleSeconds(member_->service_time()),
                           member_->captured_bytes());
      }
      step_began_ = now;
      if (!worker_reporter_) return;
      if (trainer_->last_move()) worker_reporter_->on_experts_moved(*trainer_->last_move());
      worker_reporter_->on_step(
          trainer_->last_record(),
          keeps_copies_ ? std::optional(member_->protection_state(record)) : std::nullopt);
      tell_published();
    };
    observer.on_resumed = [this](Step step, const std::string& source) {
      published_ = trainer_->published();
      client_.report({.kind = WorkerReport::Kind::kReady, .step = step, .text = source});
    };
    observer.on_reordered = [](Step step, const std::string& why) {
      log_info(absl::StrCat("step ", step.value, ": a new capture order: ", why));
    };
    observer.on_evaluated = [this](const Record&, Step step) {
      if (worker_reporter_) {
        worker_reporter_->on_evaluated(step, trainer_->last_validation_loss(),
                                       trainer_->last_validation_accuracy());
      }
    };
    return observer;
  }

  void receive(ControllerMessage order) {
    if (const auto line = incident_lines_.on_order(order)) log_info(*line);
    member_->receive(std::move(order));
  }

  void tell_published() {
    if (!worker_reporter_ || trainer_->published() == published_) return;
    published_ = trainer_->published();
    worker_reporter_->on_published(published_);
  }

  FolderTerm term() {
    const MutexLock lock(term_mutex_);
    return term_;
  }
  void note_term(const FolderTerm& term) {
    const MutexLock lock(term_mutex_);
    term_ = term;
  }

  const WorkerOptions& options_;
  const JobConfig& config_;
  const Topology topology_;
  ControlClient& client_;
  Mutex term_mutex_;
  FolderTerm term_ ABSL_GUARDED_BY(term_mutex_);  // the newest that it was told of
  const PublisherClaim publisher_claim_;
  IncidentLines incident_lines_;  // of the thread that brings orders
  std::optional<WorkerReporter> worker_reporter_;
  std::optional<WorkerDevice> device_;
  std::vector<Chunk> inherited_;
  std::unique_ptr<TransportListener> listener_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<WatchedTransport> stage_transport_;  // the trainer's
  std::unique_ptr<Trainer> trainer_;
  bool keeps_copies_ = false;
  std::optional<WindowChooser> chooser_;  // windows are chosen, not configured
  std::unique_ptr<Member> member_;
  std::unique_ptr<FaultInjector> injector_;
  absl::Duration step_began_ = real_clock().now();
  Step published_{-1};
};

}  // namespace

absl::Status run_member(const WorkerOptions& options, const JobConfig& config,
                        const TokenParts& tokens, const std::function<bool()>& drain_requested,
                        ControlClient& client, Inheritance inherited) {
  MemberProcess process(options, config, client, std::move(inherited));
  absl::Status status = guard([&]() -> absl::Status {
    RETURN_IF_ERROR(process.prepare(tokens, drain_requested));
    return process.run();
  });
  return close_line(client, std::move(status));  // before the member goes, which it may call
}

absl::Status close_line(ControlClient& client, absl::Status status) {
  if (!status.ok()) {
    log_error(std::string(status.message()));  // also where the line itself does not work
    WorkerReport failed{.kind = WorkerReport::Kind::kFailed, .text = std::string(status.message())};
    failed.accused = accused_rank(status);
    failed.bad_input = absl::IsInvalidArgument(status);
    failed.is_hopeless = exit_code(status) == kExitHopeless;
    failed.is_doubted = is_doubtful(status);
    client.report(std::move(failed));
  }
  client.close();
  return status;
}

}  // namespace evermoe
