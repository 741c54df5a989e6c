#include "recovery/member/restore/witnesses.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kWitnessFile[] = "witness.json";
constexpr int kWitnessVersion = 1;
constexpr char kUnfinished[] = ".tmp";
constexpr int64_t kWitnessFileBytesMax = 64 << 20;
constexpr size_t kErrorBytesMax = 4 << 10;

// The name of the file; null if there is nothing to write.
absl::StatusOr<Json> write_bytes(Files& files, const std::string& folder, const std::string& name,
                                 const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return Json();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  RETURN_IF_ERROR(write_file_synced(files, join_path(folder, name), text));
  return Json(name);
}

std::string error_in(Files& files, const std::string& folder) {
  const auto text = read_file(files, join_path(folder, kWitnessFile), kWitnessFileBytesMax);
  const Json json = text.ok() ? Json::parse(*text, nullptr, /*allow_exceptions=*/false) : Json();
  const bool is_whole = json.is_object() && json.contains("error") && json["error"].is_string();
  if (!is_whole) return "what was computed twice had other bits";
  return json["error"].get<std::string>().substr(0, kErrorBytesMax);
}

}  // namespace

bool Witnesses::has_room_for(int64_t bytes) const {
  const MutexLock lock(mutex_);
  return bytes_ + bytes <= kBytesMax;
}

void Witnesses::add(std::string what, const Fingerprint& fingerprint_before,
                    const Fingerprint& fingerprint_now, std::span<const std::byte> before,
                    std::span<const std::byte> now) {
  const MutexLock lock(mutex_);
  Witness witness{std::move(what), fingerprint_before, fingerprint_now, {}, {}};
  if (bytes_ + std::ssize(before) + std::ssize(now) <= kBytesMax) {
    witness.bytes_before.assign(before.begin(), before.end());
    witness.bytes_now.assign(now.begin(), now.end());
    bytes_ += std::ssize(before) + std::ssize(now);
  }
  witnesses_.push_back(std::move(witness));
}

size_t Witnesses::size() const {
  const MutexLock lock(mutex_);
  return witnesses_.size();
}

absl::Status Witnesses::write(Files& files, const std::string& out, const std::string& name,
                              const std::string& error) const {
  const MutexLock lock(mutex_);
  const std::string all = join_path(out, kContradictionFolder);
  const std::string folder = join_path(all, name);
  const std::string unfinished = folder + kUnfinished;
  RETURN_IF_ERROR(remove_tree(files, unfinished));
  RETURN_IF_ERROR(files.create_directories(unfinished));
  Json differences = Json::array();
  for (size_t i = 0; i < witnesses_.size(); ++i) {
    const Witness& witness = witnesses_[i];
    ASSIGN_OR_RETURN(Json before, write_bytes(files, unfinished, absl::StrCat(i, ".before"),
                                              witness.bytes_before));
    ASSIGN_OR_RETURN(Json now,
                     write_bytes(files, unfinished, absl::StrCat(i, ".now"), witness.bytes_now));
    differences.push_back({{"what", witness.what},
                           {"before", to_hex(witness.before)},
                           {"now", to_hex(witness.now)},
                           {"bytes_before", std::move(before)},
                           {"bytes_now", std::move(now)}});
  }
  const Json json{
      {"version", kWitnessVersion}, {"error", error}, {"differences", std::move(differences)}};
  RETURN_IF_ERROR(
      write_file_synced(files, join_path(unfinished, kWitnessFile),
                        json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
  RETURN_IF_ERROR(files.sync_directory(unfinished));
  if (files.exists(folder)) return remove_tree(files, unfinished);
  RETURN_IF_ERROR(files.rename(unfinished, folder));
  return files.sync_directory(all);
}

std::optional<std::string> find_contradiction(Files& files, const std::string& out) {
  const std::string all = join_path(out, kContradictionFolder);
  const auto names = files.list(all);
  if (!names.ok()) return std::nullopt;
  for (const std::string& name : *names) {
    const std::string folder = join_path(all, name);
    if (absl::EndsWith(name, kUnfinished) || !files.is_directory(folder)) continue;
    return absl::StrCat(error_in(files, folder), "; witnesses in ", folder);
  }
  return std::nullopt;
}

}  // namespace evermoe
