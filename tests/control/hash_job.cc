// The processes of a protected job in one program, without torch: controller and agents as they are, and
// workers that are real members with the hash model over real streams.
//
//   hash_job controller FLAGS | hash_job agent FLAGS | hash_job worker --out OUT --lanes 2,2 ...
//
// A worker writes the digest of its final state to OUT/digest.<rank>.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <map>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/control_client.h"
#include "cluster/control_processes.h"
#include "comm/unix_transport.h"
#include "env/files.h"
#include "recovery/member.h"
#include "sim/hash_trainer.h"

namespace evermoe {
namespace {

std::atomic<bool> asked_to_drain{false};

// The hash model at the pace of a slow trainer, which ends early when somebody asks for it: the request
// travels with the findings of a step, so that all ranks stop at the same one.
class PacedTrainer final : public StageTrainer {
 public:
  // `hangs_at`: the step in which the training thread never comes back; -1: none.
  PacedTrainer(StageTrainer& inner, absl::Duration step_time, int64_t hangs_at)
      : inner_(inner), step_time_(step_time), hangs_at_(hangs_at) {}

  const std::vector<StageOperator>& operators() const override { return inner_.operators(); }
  void join_stage(View epoch) override { inner_.join_stage(epoch); }
  absl::StatusOr<std::string> resume(Communicator& world) override { return inner_.resume(world); }
  absl::Status restore_base(Step base) override { return inner_.restore_base(base); }
  void capture(int index, SnapshotKind kind, int64_t offset, std::span<std::byte> into) const override {
    inner_.capture(index, kind, offset, into);
  }
  void restore(int index, SnapshotKind kind, int64_t offset, std::span<const std::byte> from) override {
    inner_.restore(index, kind, offset, from);
  }
  absl::Status complete_restore(const std::vector<int>& indices) override { return inner_.complete_restore(indices); }
  Step step() const override { return inner_.step(); }
  RecordBytes position() const override { return inner_.position(); }
  absl::Status set_position(const RecordBytes& position) override { return inner_.set_position(position); }
  absl::StatusOr<Findings> train(const ActiveOperators& active, Boundary& boundary) override {
    real_clock().sleep_until(real_clock().now() + step_time_);
    while (inner_.step().value == hangs_at_) real_clock().sleep_until(real_clock().now() + absl::Seconds(1));
    ASSIGN_OR_RETURN(Findings findings, inner_.train(active, boundary));
    findings.minima.push_back(asked_to_drain ? 0 : 1);
    return findings;
  }
  const ExpertLoads& expert_loads() const override { return inner_.expert_loads(); }
  absl::Status apply(const Findings& combined, const ActiveOperators& active, const BeforeWrite& before_write) override {
    Findings own = combined;
    is_drained_ = own.minima.back() == 0;
    own.minima.pop_back();
    return inner_.apply(own, active, before_write);
  }
  bool is_evaluated(Step step) const override { return inner_.is_evaluated(step); }
  int64_t evaluation_batches() const override { return inner_.evaluation_batches(); }
  absl::StatusOr<Findings> evaluate(int64_t batch, Boundary& boundary) override { return inner_.evaluate(batch, boundary); }
  void apply_evaluation(const Findings& combined) override { inner_.apply_evaluation(combined); }
  bool is_saved(Step step) const override { return inner_.is_saved(step); }
  absl::Status save() override { return inner_.save(); }
  bool is_finished() const override { return is_drained_ || inner_.is_finished(); }
  absl::StatusOr<Findings> close() override { return inner_.close(); }
  bool is_closed(const Findings& combined) override { return inner_.is_closed(combined); }
  bool is_drained() const { return is_drained_; }

 private:
  StageTrainer& inner_;
  const absl::Duration step_time_;
  const int64_t hangs_at_;
  bool is_drained_ = false;
};

using Flags = std::map<std::string, std::string>;

int64_t number(const Flags& flags, const std::string& name, int64_t otherwise) {
  int64_t value = otherwise;
  if (const auto flag = flags.find(name); flag != flags.end() && !absl::SimpleAtoi(flag->second, &value)) std::_Exit(2);
  return value;
}

std::vector<int> lanes_of(const Flags& flags) {
  std::vector<int> lanes;
  const std::vector<std::string> parts = absl::StrSplit(flags.at("--lanes"), ',');
  for (const std::string& part : parts) lanes.push_back(std::stoi(part));
  return lanes;
}

class Worker {
 public:
  explicit Worker(const Flags& flags)
      : flags_(flags), rank_(static_cast<int32_t>(number(flags, "--rank", -1))),
        since_(static_cast<uint32_t>(number(flags, "--since", 0))),
        report_fd_(static_cast<int>(number(flags, "--report-fd", -1))), lanes_(lanes_of(flags)),
        topology_(lanes_, std::ssize(lanes_)),
        client_({flags.at("--agent"), rank_, since_, absl::Milliseconds(number(flags, "--heartbeat-ms", 100))}) {}

  absl::Status run() {
    if (flags_.contains("--refuse")) return fail(InvalidInput("data.path: found nothing"));
    ASSIGN_OR_RETURN(const auto listener, listen_unix({}));
    const std::string address = listener->address();
    ASSIGN_OR_RETURN(const auto transport, listener->open(rank_, topology_.world_size(), since_));
    HashModelOptions model;
    model.steps = number(flags_, "--steps", 20);
    model.micro_batches = 4;
    HashTrainer hash(topology_, *transport, disk_, model);
    PacedTrainer trainer(hash, absl::Milliseconds(number(flags_, "--step-ms", 0)),
                         rank_ == Rank(static_cast<int32_t>(number(flags_, "--hang-rank", -1))) && since_ == View(1)
                             ? number(flags_, "--hang-at", -1)
                             : -1);
    MemberObserver observer;
    if (rank_ == Rank(0)) observer.on_step = [this](const Record&, Step step) { report({.kind = WorkerReport::Kind::kStep, .step = step}); };
    Member member(topology_, *transport, trainer, client_, real_clock(), member_options(), observer);
    attach(member, address);
    RETURN_IF_ERROR(play(member, *transport));
    RETURN_IF_ERROR(replace_file(real_files(), join_path(flags_.at("--out"), absl::StrCat("digest.", rank_.value)), to_hex(hash.digest())));
    WorkerReport finished{.kind = WorkerReport::Kind::kFinished, .step = trainer.step()};
    finished.drained = trainer.is_drained();
    report(finished);
    return absl::OkStatus();
  }

 private:
  MemberOptions member_options() const {
    MemberOptions options;
    options.slots = static_cast<int>(number(flags_, "--window", 3));
    options.copies.chunk_bytes_max = 16;
    options.copies.bytes_per_second = 1e7;
    options.deadline = absl::Minutes(5);
    return options;
  }

  void attach(Member& member, const std::string& address) {
    ControlHandlers handlers;
    handlers.describe = [&member, address] {
      const MemberViews& views = member.views();
      const auto plan = views.plan();
      MemberJoined joined;
      joined.address = address;
      joined.newest_view = views.newest_view();
      joined.is_open = plan != nullptr && plan->view == joined.newest_view;
      joined.has_finished = views.standing().is_finished;
      joined.stage_epoch = views.standing().stage_epoch;
      joined.newest = member.newest_commit();
      return joined;
    };
    handlers.entered = [&member] { return member.views().entered_view(); };
    handlers.on_registered = [&member] { member.repeat_trouble(); };
    handlers.on_order = [&member](ControllerMessage order) { member.receive(std::move(order)); };
    handlers.on_lost = [](const std::string& why) {
      log_error(absl::StrCat("the agent is gone: ", why));
      std::_Exit(1);
    };
    client_.attach(std::move(handlers));
  }

  absl::Status play(Member& member, Transport& transport) {
    absl::Status served;
    std::thread service([&] { served = member.serve(); });
    const absl::Status trained = member.train();
    service.join();
    if (!trained.ok()) return fail(trained);
    if (!served.ok()) return fail(served);
    transport.close();
    return absl::OkStatus();
  }

  absl::Status fail(const absl::Status& status) {
    WorkerReport failed{.kind = WorkerReport::Kind::kFailed, .text = std::string(status.message())};
    failed.bad_input = absl::IsInvalidArgument(status);
    report(failed);
    return status;
  }

  void report(WorkerReport report) {
    report.rank = rank_;
    const std::string line = encode(report);
    if (report_fd_ >= 0) (void)!::write(report_fd_, line.data(), line.size());
  }

  const Flags& flags_;
  const Rank rank_;
  const View since_;
  const int report_fd_;
  const std::vector<int> lanes_;
  const Topology topology_;
  SimulatedDisk disk_;  // of this process alone: a job that loses everybody begins again
  ControlClient client_;
};

absl::Status run(const std::string& command, const std::vector<std::string>& arguments) {
  if (command == "controller") {
    ASSIGN_OR_RETURN(const auto options, parse_controller_flags(arguments));
    return run_controller(options);
  }
  if (command == "agent") {
    ASSIGN_OR_RETURN(const auto options, parse_agent_flags(arguments));
    return run_agent(options);
  }
  signal(SIGTERM, [](int) { asked_to_drain = true; });
  Flags flags;
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) flags[arguments[i]] = arguments[i + 1];
  return Worker(flags).run();
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  const absl::Status status = evermoe::run(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc});
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return evermoe::exit_code(status);
}
