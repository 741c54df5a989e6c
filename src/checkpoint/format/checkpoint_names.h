// Names in a checkpoint folder (docs/formats/checkpoint.md).
#pragma once

#include <optional>
#include <string>

#include "base/ids.h"

namespace evermoe {

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr char kLatestName[] = "latest";
// A checkpoint folder under one of these suffixes is not published: being written; replaced by a
// newer save of the same step, on file systems that cannot swap names; being deleted.
inline constexpr char kTemporarySuffix[] = ".tmp";
inline constexpr char kReplacedSuffix[] = ".old";
inline constexpr char kRemovedSuffix[] = ".removed";

std::string step_directory_name(Step step);  // "step-00000060"
std::string rank_file_name(int rank);        // "rank-0003.safetensors"
std::string rank_part_name(int rank);        // "rank-0003.json"

// A name that step_directory_name() makes, followed by `suffix`.
std::optional<Step> parse_step_directory(const std::string& name, const std::string& suffix = "");

}  // namespace evermoe
