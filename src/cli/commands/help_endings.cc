#include "cli/commands/help_endings.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/exit_codes.h"

namespace evermoe {
namespace {

struct Ending {
  std::vector<const char*> examples;
  const char* success = "success";  // exit code 0
  const char* failure = "failure";  // exit code 1
  bool runs_job = false;            // base/exit_codes.h instead
};

using Endings = std::map<std::string, Ending>;

const Endings& endings_of_jobs() {
  static const Endings kEndings = {
      {"run",
       {{"evermoe run configs/tiny.toml --out out/tiny --set train.steps=200",
         "evermoe run configs/tiny.toml --nodes 4 --spares 1 --json"},
        "",
        "",
        /*runs_job=*/true}},
      {"node",
       {{"srun -N 5 --ntasks-per-node 1 --kill-on-bad-exit=0 evermoe node job.toml --out "
         "/shared/job --spares 1",
         "evermoe node job.toml --out /shared/job --node 0 --nodes 2 --join 10.0.0.1:29600"},
        "",
        "",
        /*runs_job=*/true}},
      {"experiment",
       {{"evermoe experiment configs/experiments/example.toml --out out/example --json"},
        "all runs are done",
        "a run could not be measured; the same command goes on"}},
      {"keys", {{"evermoe keys new job-keys"}, "the keys are there"}},
      {"status",
       {{"evermoe status /shared/job --watch", "evermoe status 10.0.0.1:29600 --json"},
        "the controller has answered",
        "it does not answer"}},
      {"drain",
       {{"evermoe drain /shared/job"}, "the job has ended well", "it failed, or does not answer"}},
      {"stop", {{"evermoe stop /shared/job"}, "the job has ended", "it does not answer"}},
      {"controller",
       {{"evermoe controller job.toml --out /shared/job --listen 10.0.0.9:29600 --nodes 5 --spares "
         "1"},
        "",
        "",
        /*runs_job=*/true}},
      {"controller-process",
       {{"evermoe controller-process --config out/job/config.toml --address 10.0.0.1:7070 --keys "
         "job-keys"},
        "the job has ended well",
        "the job failed"}},
      {"move",
       {{"evermoe move out/job --role 1.0", "evermoe move out/job --role 1.0 --role 1.1 --to 3",
         "evermoe move host1:7070 --drain 2 --keys job-keys",
         "evermoe move out/job --rebalance places.toml"},
        "the roles will move",
        "the job does not answer"}},
      {"agent-process",
       {{"evermoe agent-process --config out/job/config.toml --out out/job --node 0 --controller "
         "10.0.0.1:7070 --keys job-keys "
         "--worker evermoe-worker -- train --config out/job/config.toml --out out/job"},
        "the job has ended",
        "no controller was there for five minutes"}},
  };
  return kEndings;
}

const Endings& endings_of_tools() {
  static const Endings kEndings = {
      {"inspect",
       {{"evermoe inspect out/tiny", "evermoe inspect --config configs/mixtral-tiny.toml --json"},
        "success",
        "the checkpoint is damaged"}},
      {"verify",
       {{"evermoe verify out/tiny/checkpoints/step-00000100"},
        "every fingerprint is right",
        "the checkpoint is damaged"}},
      {"digest", {{"evermoe digest out/tiny"}, "success", "the checkpoint is damaged"}},
      {"diff",
       {{"evermoe diff out/first out/second"},
        "the same state",
        "different states, or a checkpoint is damaged"}},
      {"export", {{"evermoe export out/tiny --out out/tiny-hf --type bf16"}}},
      {"fetch",
       {{"evermoe fetch s3://bucket/job", "evermoe fetch s3://bucket/job --out fetched --step 400"},
        "the checkpoint is there, and every fingerprint is right",
        "the store does not answer, or the checkpoint is damaged"}},
      {"config",
       {{"evermoe config job.toml --set parallel.lanes=4", "evermoe config --keys"},
        "the configuration is valid"}},
      {"tokenize",
       {{"evermoe tokenize text.txt --out text.tokens --train-vocabulary 4096 --model "
         "text.model"}}},
      {"sim",
       {{"evermoe sim --seeds 1..1000", "evermoe sim --machines 1024"},
        "every job ended with the bits of the undisturbed one",
        "a job did not"}},
      {"plan",
       {{"evermoe plan gpt-moe-7.3b examples/clusters/a100-12x8.toml",
         "evermoe plan mixtral-8x7b A100-80GB --set cluster.nodes=12 --tiers"}}},
      {"forecast",
       {{"evermoe forecast gpt-moe-7.3b examples/clusters/a100-12x8.toml --report forecast.html"}}},
      {"place",
       {{"evermoe place --experts 16 --nodes 8 --slots 4 --explain",
         "evermoe place --experts 16 --nodes 8 --slots 4 --json > before.json",
         "evermoe place --experts 16 --nodes 7 --slots 4 --from before.json --lost 3"}}},
      {"profile",
       {{"evermoe profile --out machine.toml",
         "evermoe profile --job configs/tiny.toml --out job.toml"}}},
  };
  return kEndings;
}

std::string to_text(const Ending& ending) {
  std::string text = ending.examples.size() == 1 ? "Example:" : "Examples:";
  for (const char* const example : ending.examples) absl::StrAppend(&text, "\n  ", example);
  if (ending.runs_job) {
    absl::StrAppend(&text, "\nExit codes:");
    for (const ExitCodeMeaning& one : kExitCodes)
      absl::StrAppendFormat(&text, "\n  %-7s%s", one.code, one.meaning);
    return absl::StrCat(text, "\n");
  }
  return absl::StrCat(text, "\nExit codes: 0 ", ending.success, "; 1 ", ending.failure,
                      "; 2 bad input.\n");
}

}  // namespace

void add_help_endings(CLI::App& app) {
  Endings endings = endings_of_jobs();
  endings.insert(endings_of_tools().begin(), endings_of_tools().end());
  for (CLI::App* const command : app.get_subcommands({})) {
    const auto ending = endings.find(command->get_name());
    CHECK(ending != endings.end()) << "no example for evermoe " << command->get_name();
    command->footer(to_text(ending->second));
  }
}

}  // namespace evermoe
