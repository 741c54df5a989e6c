#include "worker/member_worker.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "config/job_topology.h"
#include "control/agent/member_description.h"
#include "env/clock.h"
#include "faults/injected_faults.h"
#include "tensor/arithmetic_identity.h"
#include "tensor/compute_threads.h"
#include "worker/member_config.h"

namespace evermoe {
namespace {

// The same Contradiction with more words.
absl::Status append(const absl::Status& contradiction, const std::string& words) {
  return Contradiction(absl::StrCat(contradiction.message(), words));
}

}  // namespace

MemberWorker::MemberWorker(WorkerOptions options, const JobConfig& config, const TokenParts& tokens,
                           ControlClient& client, std::function<bool()> drain_requested)
    : options_(std::move(options)),
      config_(config),
      tokens_(tokens),
      topology_(topology_of(config)),
      client_(client),
      drain_requested_(std::move(drain_requested)) {}

// ---- before the role is its own

absl::Status MemberWorker::prepare(std::shared_ptr<const WorkerDevice> device,
                                   std::shared_ptr<WorkerSeat> seat) {
  seat_ = std::move(seat);
  if (seat_ == nullptr) {
    ASSIGN_OR_RETURN(seat_, WorkerSeat::take(options_, config_, /*seat=*/0));
  }
  device_ = std::move(device);
  RETURN_IF_ERROR(check_device_memory(config_, options_.rank, device_->device));
  const auto sent = std::make_shared<SentTraffic>();
  ASSIGN_OR_RETURN(
      trainer_, Trainer::create(config_, environment(sent), {.drain_requested = drain_requested_}));
  return create_member(sent);
}

TrainerEnvironment MemberWorker::environment(const std::shared_ptr<SentTraffic>& sent) {
  stage_transport_ =
      std::make_unique<WatchedTransport>(seat_->transport(), kStageGroups, real_clock(), sent);
  TrainerEnvironment environment;
  environment.device = device_->device;
  environment.transport = stage_transport_.get();
  environment.files = &real_files();
  environment.checkpoint_directory = options_.out + "/checkpoints";
  environment.local_directory = config_.checkpoint.local_directory_of(options_.node);
  environment.term = [this] { return term(); };
  environment.may_write = [this] { return check_job(real_files(), options_.out, term()); };
  environment.may_publish = [this] { return publisher_claim_->hold(); };
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
  environment.training = tokens_.training;
  environment.validation = tokens_.validation;
  return environment;
}

absl::Status MemberWorker::create_member(const std::shared_ptr<SentTraffic>& sent) {
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
  member_ = std::make_unique<Member>(topology_, seat_->transport(), *trainer_, client_,
                                     real_clock(), std::move(member), observer());
  return absl::OkStatus();
}

// ---- in its role

absl::Status MemberWorker::begin(std::vector<Chunk> inherited) {
  note_term(options_.term);
  publisher_claim_.emplace(real_files(), options_.out, options_.term, options_.start);
  if (options_.rank == Rank(0)) {
    worker_reporter_.emplace([this](WorkerReport report) { client_.report(std::move(report)); },
                             real_files(), options_.out);
  }
  member_->inherit(std::move(inherited));
  step_began_ = real_clock().now();
  return options_.faults.empty() ? absl::OkStatus() : arm_faults();
}

absl::Status MemberWorker::run(std::vector<Chunk> inherited) {
  RETURN_IF_ERROR(begin(std::move(inherited)));
  client_.attach(handlers(), absl::Seconds(config_.protection.heartbeat_seconds));
  absl::Status served;
  std::thread service([&] { served = member_->serve(); });
  const absl::Status trained = member_->train();
  service.join();
  client_.detach();  // orders go to the transport, which closes below
  if (relieved_ && served.ok()) {
    seat_->transport().close();
    return absl::OkStatus();
  }
  relieved_.reset();
  const absl::Status ended = trained.ok() || is_contradiction(served) ? served : trained;
  if (is_contradiction(ended)) return with_witnesses(ended);
  RETURN_IF_ERROR(ended);
  tell_published();
  if (worker_reporter_) RETURN_IF_ERROR(worker_reporter_->close());
  WorkerReport finished{.kind = WorkerReport::Kind::kFinished, .step = trainer_->step()};
  finished.drained = trainer_->is_drained();
  client_.report(finished);
  seat_->transport().close();
  return absl::OkStatus();
}

ControlHandlers MemberWorker::handlers() {
  return {.describe = [this] { return describe(); },
          .entered = [this] { return member_->views().entered_view(); },
          .waits = [this] { return stage_transport_->is_waited_in(); },
          .take_step_times = [this] { return member_->take_step_times(); },
          .take_link_times = [this] { return member_->take_link_times(); },
          .on_term = [this](const FolderTerm& term) { note_term(term); },
          .on_registered = [this] { member_->repeat_trouble(); },
          .on_order = [this](ControllerMessage order) { receive(std::move(order)); },
          .on_relieved =
              [this](const BecomeStandby& relieved) {
                relieved_ = relieved;
                receive(ReleaseOrder{});
              },
          .on_lost =
              [](const std::string& why) {
                log_error("the agent is gone: " + why);
                _exit(1);
              }};
}

// Before anybody is told: with the word of it the job ends, and this process with it.
absl::Status MemberWorker::with_witnesses(const absl::Status& contradiction) const {
  const std::string name = topology_.name_of(options_.rank);
  absl::Status error = annotate(contradiction, absl::StrCat("role ", name));
  const auto plan = member_->views().plan();
  if (plan != nullptr && !plan->restart_all) {
    const Step from = plan->window >= Step(0) ? plan->window : plan->base;
    error = append(
        error, absl::StrCat("; checkpoints after step ", from.value, " may have the wrong ones"));
  }
  const std::string folder = absl::StrCat(name, "-step-", trainer_->step().value);
  const absl::Status kept =
      member_->witnesses().write(real_files(), options_.out, folder, std::string(error.message()));
  return append(error, kept.ok() ? absl::StrCat("; witnesses in ", options_.out, "/",
                                                kContradictionFolder, "/", folder)
                                 : absl::StrCat("; the witnesses are lost: ", kept.message()));
}

absl::Status MemberWorker::arm_faults() {
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
    seat_->transport().cut(topology_.rank_of({other.stage, other.lane}));
  };
  actions.waits = [this] { return stage_transport_->is_waited_in() || member_->waits_for_world(); };
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

MemberJoined MemberWorker::describe() const {
  MemberJoined joined = evermoe::describe(*member_);
  joined.address = seat_->address();
  joined.arithmetic = arithmetic_identity(device_->device);
  return joined;
}

// ---- what people hear

MemberObserver MemberWorker::observer() {
  MemberObserver observer;
  observer.on_step = [this](const Record& record, Step) { on_step(record); };
  observer.on_resumed = [this](Step step, const std::string& source) {
    published_ = trainer_->published();
    WorkerReport ready{.kind = WorkerReport::Kind::kReady, .step = step, .text = source};
    ready.trained_on = trainer_->training_position().trained_on;
    client_.report(std::move(ready));
  };
  observer.on_computing = [](bool computes) {
    set_compute_priority(computes ? ComputePriority::kGivesWay : ComputePriority::kUsual);
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

void MemberWorker::on_step(const Record& record) {
  const absl::Duration now = real_clock().now();
  if (chooser_) {
    chooser_->add_step(absl::ToDoubleSeconds(now - step_began_),
                       absl::ToDoubleSeconds(member_->service_time()), member_->captured_bytes());
  }
  step_began_ = now;
  if (!worker_reporter_) return;
  if (trainer_->last_move()) worker_reporter_->on_experts_moved(*trainer_->last_move());
  worker_reporter_->on_step(
      trainer_->last_record(),
      keeps_copies_ ? std::optional(member_->protection_state(record)) : std::nullopt);
  tell_published();
}

void MemberWorker::receive(ControllerMessage order) {
  if (const auto line = incident_lines_.on_order(order)) log_info(*line);
  member_->receive(std::move(order));
}

void MemberWorker::tell_published() {
  if (!worker_reporter_ || trainer_->published() == published_) return;
  published_ = trainer_->published();
  worker_reporter_->on_published(published_);
}

FolderTerm MemberWorker::term() {
  const MutexLock lock(term_mutex_);
  return term_;
}

void MemberWorker::note_term(const FolderTerm& term) {
  const MutexLock lock(term_mutex_);
  term_ = term;
}

}  // namespace evermoe
