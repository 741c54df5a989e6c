// The processes of a job in one program, without torch: controller and agents as they are, and workers that
// are real members with the hash model over real streams (scripted_trainer.h).
//
//   hash_job controller FLAGS | hash_job agent FLAGS
//   hash_job worker --out OUT (--config FILE | --lanes 2,2 --steps 20) [--step-ms 5] [--window 3] [--heartbeat-ms 100]
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
#include "config/job_config.h"
#include "scripted_trainer.h"
#include "env/files.h"
#include "recovery/member.h"

namespace evermoe {
namespace {

std::atomic<bool> asked_to_drain{false};

using Flags = std::map<std::string, std::string>;

int64_t number(const Flags& flags, const std::string& name, int64_t otherwise) {
  int64_t value = otherwise;
  if (const auto flag = flags.find(name); flag != flags.end() && !absl::SimpleAtoi(flag->second, &value)) std::_Exit(2);
  return value;
}

struct HashJob {
  std::vector<int> lanes;
  bool is_protected = true;
  HashModelOptions model;
};

// Of flags, or of the configuration in OUT that a run has written.
absl::StatusOr<HashJob> job_of(const Flags& flags) {
  HashJob job;
  job.model.micro_batches = 4;
  if (!flags.contains("--config")) {
    const std::vector<std::string> parts = absl::StrSplit(flags.at("--lanes"), ',');
    for (const std::string& part : parts) job.lanes.push_back(std::stoi(part));
    job.model.steps = number(flags, "--steps", 20);
    return job;
  }
  ASSIGN_OR_RETURN(const std::string text, read_file(real_files(), flags.at("--config"), kConfigBytesMax));
  ASSIGN_OR_RETURN(const JobConfig config, parse_config(text, flags.at("--config"), "/", {}));
  job.lanes.assign(config.parallel.lanes.begin(), config.parallel.lanes.end());
  job.is_protected = config.protection.strategy != ProtectionStrategy::kNone && config.parallel.world_size() > 1;
  job.model.steps = config.train.steps;
  job.model.save_every = config.checkpoint.every_steps;
  return job;
}

class Worker {
 public:
  Worker(const Flags& flags, ControlClient& client, Rank rank, View since, HashJob job)
      : flags_(flags), rank_(rank), since_(since), job_(std::move(job)), topology_(job_.lanes, std::ssize(job_.lanes)),
        client_(client) {}

  // The error has been reported.
  absl::Status run() {
    ASSIGN_OR_RETURN(const auto listener, listen_unix({}));
    const std::string address = listener->address();
    ASSIGN_OR_RETURN(const auto transport, listener->open(rank_, topology_.world_size(), since_));
    HashTrainer hash(topology_, *transport, disk_, job_.model);
    ScriptedTrainer trainer(hash, disk_, rank_, topology_.world_size(),
                            {out(), absl::Milliseconds(number(flags_, "--step-ms", 0)), &asked_to_drain});
    RETURN_IF_ERROR(trainer.begin());
    Member member(topology_, *transport, trainer, client_, real_clock(), member_options(), observer(trainer));
    attach(member, address);
    absl::Status status = play(member, *transport);
    if (status.ok()) status = say_finished(hash, trainer);
    return close_line(std::move(status));  // before the member goes, which the line may call
  }

  absl::Status close_line(absl::Status status) {
    if (!status.ok()) {
      WorkerReport failed{.kind = WorkerReport::Kind::kFailed, .text = std::string(status.message())};
      failed.accused = accused_rank(status);
      failed.bad_input = absl::IsInvalidArgument(status);
      client_.report(failed);
    }
    client_.close();
    return status;
  }

 private:
  std::string out() const { return flags_.at("--out"); }

  MemberObserver observer(ScriptedTrainer& trainer) {
    MemberObserver observer;
    observer.on_resumed = [this](Step step, const std::string& source) {
      client_.report({.kind = WorkerReport::Kind::kReady, .step = step, .text = source});
    };
    if (rank_ != Rank(0)) return observer;
    observer.on_step = [this, &trainer](const Record&, Step step) {
      WorkerReport report{.kind = WorkerReport::Kind::kStep, .step = step};
      report.loss = 1.0 / static_cast<double>(step.value);
      client_.report(report);
      if (job_.model.save_every > 0 && step.value % job_.model.save_every == 1) say_published(trainer);
    };
    return observer;
  }

  void say_published(ScriptedTrainer& trainer) {
    const Step newest = trainer.newest_durable();
    if (newest <= published_) return;
    published_ = newest;
    client_.report({.kind = WorkerReport::Kind::kPublished, .step = newest});
  }

  absl::Status say_finished(const HashTrainer& hash, ScriptedTrainer& trainer) {
    const std::string path = join_path(out(), absl::StrCat("digest.", rank_.value));
    RETURN_IF_ERROR(replace_file(real_files(), path, to_hex(hash.digest())));
    if (rank_ == Rank(0)) say_published(trainer);
    WorkerReport finished{.kind = WorkerReport::Kind::kFinished, .step = trainer.step()};
    finished.drained = trainer.is_drained();
    client_.report(finished);
    return absl::OkStatus();
  }

  MemberOptions member_options() const {
    MemberOptions options;
    options.is_protected = job_.is_protected;
    options.slots = static_cast<int>(number(flags_, "--window", 3));
    options.copies.piece_bytes_max = 16;
    options.copies.bytes_per_second = 1e7;
    options.deadline = absl::Minutes(5);
    return options;
  }

  void attach(Member& member, const std::string& address) {
    ControlHandlers handlers;
    handlers.describe = [&member, address] {
      const ViewGate& gate = member.gate();
      const auto plan = gate.plan();
      MemberJoined joined;
      joined.address = address;
      joined.newest_view = gate.newest_view();
      joined.is_open = plan != nullptr && plan->view == joined.newest_view;
      joined.has_finished = gate.standing().is_finished;
      joined.stage_epoch = gate.standing().stage_epoch;
      joined.newest = member.newest_commit();
      return joined;
    };
    handlers.entered = [&member] { return member.gate().entered_view(); };
    handlers.on_registered = [&member] { member.repeat_trouble(); };
    handlers.on_order = [&member](ControllerMessage order) { member.receive(std::move(order)); };
    handlers.on_lost = [](const std::string& why) {
      log_error(absl::StrCat("the agent is gone: ", why));
      std::_Exit(1);
    };
    client_.attach(std::move(handlers), absl::Milliseconds(number(flags_, "--heartbeat-ms", 100)));
  }

  absl::Status play(Member& member, Transport& transport) {
    absl::Status served;
    std::thread service([&] { served = member.serve(); });
    const absl::Status trained = member.train();
    service.join();
    if (!trained.ok()) return trained;
    RETURN_IF_ERROR(served);
    transport.close();
    return absl::OkStatus();
  }

  const Flags& flags_;
  const Rank rank_;
  const View since_;
  const HashJob job_;
  const Topology topology_;
  SimulatedDisk disk_;
  ControlClient& client_;
  Step published_{-1};
};

absl::Status run_worker(const Flags& flags) {
  const Rank rank(static_cast<int32_t>(number(flags, "--rank", -1)));
  const View since(static_cast<uint32_t>(number(flags, "--since", 0)));
  ControlClient client({flags.at("--agent"), rank, since});
  auto job = job_of(flags);
  Worker worker(flags, client, rank, since, job.value_or(HashJob{{1}}));
  if (!job.ok()) return worker.close_line(job.status());
  const absl::Status status = worker.run();
  return status.ok() ? status : worker.close_line(status);
}

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
  return run_worker(flags);
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  const absl::Status status = evermoe::run(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc});
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return evermoe::exit_code(status);
}
