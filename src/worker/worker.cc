#include "worker/worker.h"

#include <signal.h>
#include <sys/prctl.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "config/job_config.h"
#include "config/job_data.h"
#include "data/job_tokens.h"
#include "tensor/arithmetic_identity.h"
#include "tensor/host_memory.h"
#include "worker/member_worker.h"

namespace evermoe {
namespace {

// Set by any number of signals: a terminal's Ctrl-C reaches the workers of a node as well as the
// node, which then asks for the same. Who wants a worker to end at once kills it, as its agent
// does.
std::atomic<bool> is_drain_wanted{false};

void on_drain_signal(int) { is_drain_wanted.store(true); }

bool drain_requested() { return is_drain_wanted.load(); }

void install_drain_signals() {
  struct sigaction action {};
  action.sa_handler = on_drain_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGUSR1, SIG_IGN);  // of a launcher, which sends it to a whole group; the node answers it
}

struct Job {
  JobConfig config;
  TokenParts tokens;
};

absl::StatusOr<Job> load_job(const WorkerOptions& options) {
  Job job;
  ASSIGN_OR_RETURN(job.config, load_config(options.config_path, {}));
  // Whoever started the job has prepared them.
  ASSIGN_OR_RETURN(job.tokens,
                   open_job_tokens(token_source(job.config.data), join_path(options.out, "cache")));
  return job;
}

}  // namespace

absl::Status run_worker(const WorkerOptions& options) {
  install_drain_signals();
  prctl(PR_SET_NAME, absl::StrCat("evermoe.", options.rank.value).c_str());  // for ps and top
  ControlClient client({options.agent, options.rank, options.since});
  const absl::StatusOr<Job> job = load_job(options);
  if (!job.ok()) return close_line(client, job.status());
  keep_freed_memory();
  set_compute_threads(static_cast<int>(job->config.run.threads));
  return run_member(options, job->config, job->tokens, drain_requested, client);
}

}  // namespace evermoe
