// evermoe verify: every byte of a checkpoint against its fingerprints.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/read/shard_reader.h"
#include "checkpoint/read/stored_files.h"
#include "checkpoint/read/verify.h"
#include "cli/checkpoint_argument.h"
#include "cli/commands/commands.h"
#include "cli/reports/number_text.h"
#include "env/clock.h"

namespace evermoe {
namespace {

// CheckpointReader::open() ends at the first file that is missing or has another size; here the
// others are of interest too.
std::vector<std::string> problems_of(Files& files, const std::string& path, Manifest& manifest) {
  const std::string manifest_path = join_path(path, kManifestName);
  const absl::StatusOr<std::string> text = read_file(files, manifest_path, kManifestBytesMax);
  if (!text.ok()) return {std::string(text.status().message())};
  absl::StatusOr<Manifest> parsed = parse_manifest(*text, ManifestKind::kCheckpoint, manifest_path);
  if (!parsed.ok()) return {std::string(parsed.status().message())};
  manifest = *std::move(parsed);
  std::vector<std::string> problems;
  for (const absl::Status& problem : file_problems(files, path, manifest)) {
    problems.push_back(std::string(problem.message()));
  }
  // The shards of such a file would only say it again, once each.
  if (!problems.empty()) return problems;
  ShardReader shards(files, file_paths(files, path, manifest), manifest);
  return verify_checkpoint(manifest, shards);
}

absl::StatusOr<int> verify(const std::string& argument) {
  ASSIGN_OR_RETURN(const std::string path, find_checkpoint(real_files(), argument));
  const absl::Duration began = real_clock().now();
  Manifest manifest;
  const std::vector<std::string> problems = problems_of(real_files(), path, manifest);
  const absl::Duration took = real_clock().now() - began;
  for (const std::string& problem : problems) std::cout << problem << "\n";
  if (!problems.empty()) {
    std::cout << absl::StrFormat("damaged: %s, %d problem%s\n", path, problems.size(),
                                 problems.size() == 1 ? "" : "s");
    return 1;
  }
  int64_t bytes = 0;
  for (int64_t used : used_bytes(manifest)) bytes += used;
  std::cout << absl::StrFormat("ok: %s, %d file%s, %s bytes read in %.2f s\n", path,
                               manifest.files.size(), manifest.files.size() == 1 ? "" : "s",
                               with_commas(bytes), absl::ToDoubleSeconds(took));
  return 0;
}

}  // namespace

void add_verify_command(CLI::App& app, CommandTable& commands) {
  const auto checkpoint = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("verify", "Read a checkpoint and check every fingerprint in it.");
  command->add_option("CHECKPOINT", *checkpoint, kCheckpointHelp)->type_name("DIR")->required();
  commands[command] = [checkpoint] { return verify(*checkpoint); };
}

}  // namespace evermoe
