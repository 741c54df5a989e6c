// The processes of a job in one program, without torch: controller and agents as they are, and
// workers that are real members with the hash model over real streams (scripted_trainer.h).
//
//   hash_job controller FLAGS | hash_job agent FLAGS
//   hash_job train --out OUT --config FILE [--step-ms 5] [--window 3]
//
// A worker writes the digest of its final state to OUT/digest.<rank>.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <iostream>
#include <map>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/unix/unix_transport.h"
#include "config/job_strategy.h"
#include "config/job_topology.h"
#include "control/agent/member_description.h"
#include "control/controller/control_options.h"
#include "control/launch/control_processes.h"
#include "control/wire/control_client.h"
#include "env/files.h"
#include "recovery/member/member.h"
#include "scripted_trainer.h"

namespace evermoe {
namespace {

std::atomic<bool> asked_to_drain{false};

using Flags = std::map<std::string, std::string>;

int64_t number(const Flags& flags, const std::string& name, int64_t otherwise) {
  int64_t value = otherwise;
  if (const auto flag = flags.find(name);
      flag != flags.end() && !absl::SimpleAtoi(flag->second, &value))
    std::_Exit(2);
  return value;
}

HashModelOptions hash_model(const JobConfig& config) {
  HashModelOptions model;
  model.micro_batches = 4;
  model.steps = config.train.steps;
  model.save_every = config.checkpoint.every_steps;
  return model;
}

class Worker {
 public:
  Worker(const Flags& flags, ControlClient& client, Rank rank, View since, JobConfig config)
      : flags_(flags),
        rank_(rank),
        since_(since),
        config_(std::move(config)),
        model_(hash_model(config_)),
        topology_(topology_of(config_)),
        client_(client) {}

  // The error has been reported.
  absl::Status run() {
    ASSIGN_OR_RETURN(const auto listener, listen_unix({}));
    const std::string address = listener->address();
    ASSIGN_OR_RETURN(const auto transport, listener->open(rank_, topology_.world_size(), since_));
    HashTrainer hash(topology_, *transport, disk_, model_);
    ScriptedTrainer trainer(
        hash, disk_, rank_, topology_.world_size(),
        {out(), absl::Milliseconds(number(flags_, "--step-ms", 0)), &asked_to_drain});
    RETURN_IF_ERROR(trainer.begin());
    Member member(topology_, *transport, trainer, client_, real_clock(), member_options(),
                  observer(trainer));
    attach(member, address);
    absl::Status status = play(member, *transport);
    if (status.ok()) status = say_finished(hash, trainer);
    return close_line(std::move(status));  // before the member goes, which the line may call
  }

  absl::Status close_line(absl::Status status) {
    if (!status.ok()) {
      WorkerReport failed{.kind = WorkerReport::Kind::kFailed,
                          .text = std::string(status.message())};
      failed.accused = accused_rank(status);
      failed.bad_input = absl::IsInvalidArgument(status);
      failed.is_hopeless = is_hopeless(status);
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
      if (model_.save_every > 0 && step.value % model_.save_every == 1) say_published(trainer);
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
    options.strategy = strategy_of(config_);
    options.strategy.captures.slots = static_cast<int>(number(flags_, "--window", 3));
    options.copies.chunk_bytes_max = 16;
    options.copies.bytes_per_second = 1e7;
    return options;
  }

  void attach(Member& member, const std::string& address) {
    ControlHandlers handlers;
    handlers.describe = [&member, address] {
      MemberJoined joined = evermoe::describe(member);
      joined.address = address;
      return joined;
    };
    handlers.entered = [&member] { return member.views().entered_view(); };
    handlers.on_registered = [&member] { member.repeat_trouble(); };
    handlers.on_order = [&member](ControllerMessage order) { member.receive(std::move(order)); };
    handlers.on_lost = [](const std::string& why) {
      log_error(absl::StrCat("the agent is gone: ", why));
      std::_Exit(1);
    };
    client_.attach(std::move(handlers), signs_of_life(config_.protection).beat);
  }

  absl::Status play(Member& member, Transport& transport) {
    absl::Status served;
    std::thread service([&] { served = member.serve(); });
    const absl::Status trained = member.train();
    service.join();
    client_.detach();
    if (!trained.ok()) return trained;
    RETURN_IF_ERROR(served);
    transport.close();
    return absl::OkStatus();
  }

  const Flags& flags_;
  const Rank rank_;
  const View since_;
  const JobConfig config_;
  const HashModelOptions model_;
  const Topology topology_;
  SimulatedDisk disk_;
  ControlClient& client_;
  Step published_{-1};
};

absl::Status run_worker(const Flags& flags) {
  const Rank rank(static_cast<int32_t>(number(flags, "--rank", -1)));
  const View since(static_cast<uint32_t>(number(flags, "--since", 0)));
  ControlClient client({flags.at("--agent"), rank, since});
  const auto config = load_stored_config(flags.at("--config"));
  Worker worker(flags, client, rank, since, config.value_or(JobConfig{}));
  if (!config.ok()) return worker.close_line(config.status());
  const absl::Status status = worker.run();
  return status.ok() ? status : worker.close_line(status);
}

template <typename Options>
absl::Status run_process(const std::vector<std::string>& arguments,
                         absl::Status (*run)(const Options&)) {
  CLI::App app;
  Options options;
  add_flags(app, options);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return InvalidInput(error.what());
  }
  return run(options);
}

absl::Status run(const std::string& command, const std::vector<std::string>& arguments) {
  if (command == "controller-process") return run_process(arguments, run_controller);
  if (command == "agent-process") return run_process(arguments, run_agent);
  signal(SIGTERM, [](int) { asked_to_drain = true; });
  Flags flags;
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) flags[arguments[i]] = arguments[i + 1];
  return run_worker(flags);
}

}  // namespace
}  // namespace evermoe

int main(int argc, char** argv) {
  const absl::Status status =
      evermoe::run(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc});
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return evermoe::exit_code(status);
}
