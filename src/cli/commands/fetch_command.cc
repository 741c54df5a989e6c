// evermoe fetch: a checkpoint out of an object store, for the commands that read folders.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "checkpoint/object_store/s3_store.h"
#include "checkpoint/object_store/stored_checkpoints.h"
#include "cli/commands/commands.h"

namespace evermoe {
namespace {

constexpr int64_t kNewest = -1;

struct FetchArguments {
  std::string url;
  std::string out;
  int64_t step = kNewest;
};

std::string steps_of(const std::vector<StoredCheckpoint>& stored) {
  std::string steps;
  for (const StoredCheckpoint& checkpoint : stored)
    absl::StrAppend(&steps, steps.empty() ? "" : ", ", checkpoint.step.value);
  return steps;
}

absl::StatusOr<StoredCheckpoint> choose(const std::vector<StoredCheckpoint>& stored,
                                        const FetchArguments& arguments) {
  if (stored.empty())
    return InvalidInput(absl::StrCat(arguments.url,
                                     ": found no checkpoint, allowed: a store or "
                                     "prefix that a job's checkpoint.store has named"));
  if (arguments.step == kNewest) return stored.front();
  const auto found = std::ranges::find_if(
      stored, [&](const StoredCheckpoint& each) { return each.step.value == arguments.step; });
  if (found != stored.end()) return *found;
  return InvalidInput(
      absl::StrCat("--step: found ", arguments.step, ", allowed: ", steps_of(stored)));
}

absl::StatusOr<int> fetch(const FetchArguments& arguments) {
  RETURN_IF_ERROR(parse_s3_url(arguments.url).status());
  ASSIGN_OR_RETURN(const S3Options options, s3_options());
  ASSIGN_OR_RETURN(const auto store, open_s3_store(arguments.url, options));
  ASSIGN_OR_RETURN(const std::vector<StoredObject> objects, store->list(""));
  const std::vector<StoredCheckpoint> stored = stored_checkpoints(objects);
  ASSIGN_OR_RETURN(const StoredCheckpoint chosen, choose(stored, arguments));
  if (arguments.out.empty()) {
    for (const StoredCheckpoint& checkpoint : stored)
      std::cout << absl::StrFormat("step %d, term %s\n", checkpoint.step.value, checkpoint.term);
    return 0;
  }
  RETURN_IF_ERROR(real_files().create_directories(arguments.out));
  ASSIGN_OR_RETURN(const std::string folder,
                   fetch_checkpoint(real_files(), *store, chosen, arguments.out));
  std::cout << folder << "\n";
  return 0;
}

}  // namespace

void add_fetch_command(CLI::App& app, CommandTable& commands) {
  const auto arguments = std::make_shared<FetchArguments>();
  CLI::App* command = app.add_subcommand(
      "fetch",
      "Bring a checkpoint out of an object store and check every fingerprint in it; the other "
      "commands read its folder.");
  command
      ->add_option("STORE", arguments->url, absl::StrCat("a job's checkpoint.store: ", kS3UrlHelp))
      ->type_name("URL")
      ->required();
  command
      ->add_option("--out", arguments->out,
                   "folder to put step-N into; without it what is there is listed")
      ->type_name("DIR");
  command->add_option("--step", arguments->step, "which one (default: the newest)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  commands[command] = [arguments] { return fetch(*arguments); };
}

}  // namespace evermoe
