#include "train/state/local_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "checkpoint/write/folder_term.h"
#include "train/state/state_transfer.h"

namespace evermoe {
namespace {

// One folder for each folder of checkpoints that ever was: whoever deletes OUT begins anew here,
// too.
absl::StatusOr<std::string> folder_of_job(Files& files, const TrainerEnvironment& environment) {
  ASSIGN_OR_RETURN(const std::string name, name_of_folder(files, environment.checkpoint_directory));
  return join_path(environment.local_directory, name);
}

std::vector<int64_t> told_numbers(const std::vector<LocalSave>& saves) {
  std::vector<int64_t> numbers;
  for (int i = 0; i < kLocalSavesMax; ++i) {
    const LocalSave save = static_cast<size_t>(i) < saves.size() ? saves[i] : LocalSave{};
    for (const int64_t number : to_numbers(save)) numbers.push_back(number);
  }
  return numbers;
}

std::vector<LocalSave> told_saves(std::span<const int64_t> numbers) {
  std::vector<LocalSave> saves;
  for (int i = 0; i < kLocalSavesMax; ++i) {
    const LocalSave save = from_numbers(
        numbers.subspan(static_cast<size_t>(i) * kLocalSaveNumbers, kLocalSaveNumbers));
    if (save.step >= Step(0)) saves.push_back(save);
  }
  return saves;
}

absl::Status check_ranges(const CheckpointReader& part,
                          const std::vector<OperatorState*>& operators) {
  for (const OperatorState* state : operators) {
    const FlatRange range = state->shard();
    if (range.size() == 0) continue;
    if (!holds_range(part.manifest(), state->spec().name, state->spec().flat_size, range))
      return Corrupt(absl::StrCat(part.path(), ": has not all of ", state->spec().name,
                                  " that this rank owns"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LocalState::locate() {
  if (!directory_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string folder, folder_of_job(*environment_.files, environment_));
  directory_ = join_path(folder, absl::StrFormat("rank-%04d", rank()));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LocalSave>> LocalState::find(Communicator& world, int64_t term) {
  if (!is_used()) return std::vector<LocalSave>();
  found_.clear();
  // A rank that cannot look has nothing: the others must not wait for it.
  if (locate().ok()) found_ = list_local_saves(*environment_.files, directory_, rank());
  const std::vector<int64_t> own = told_numbers(found_);
  const size_t ranks = static_cast<size_t>(world.size());
  std::vector<int64_t> all(own.size() * ranks);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(all));
  std::vector<int64_t> begins;
  for (size_t r = 0; r <= ranks; ++r)
    begins.push_back(static_cast<int64_t>(r * own.size() * sizeof(int64_t)));
  std::ranges::copy(own, all.begin() + static_cast<int64_t>(own.size()) * world.index());
  RETURN_IF_ERROR(annotate(world.all_gather(bytes, begins), "resume"));
  std::vector<std::vector<LocalSave>> told;
  for (size_t r = 0; r < ranks; ++r)
    told.push_back(told_saves(std::span(all).subspan(r * own.size(), own.size())));
  return usable_local_saves(told, term);
}

std::string LocalState::path_of_found(const LocalSave& chosen) const {
  return path_of(directory_, own_of(found_, chosen));
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> LocalState::open_found(
    const LocalSave& chosen) const {
  auto part = CheckpointReader::open_part(*environment_.files, path_of_found(chosen), rank());
  if (!part.ok()) return Corrupt(std::string(part.status().message()));
  RETURN_IF_ERROR(check_ranges(**part, model_.operators()));
  return part;
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> LocalState::open_committed(
    Step step, const Fingerprint& origin) {
  if (!is_used()) return NotFound("no disk of the machine's own is used");
  RETURN_IF_ERROR(locate());
  const std::string path = path_of(directory_, {.step = step, .is_committed = true});
  ASSIGN_OR_RETURN(auto part, CheckpointReader::open_part(*environment_.files, path, rank()));
  if (origin_of(part->manifest()) != origin) return NotFound(path + " is of another run");
  RETURN_IF_ERROR(check_ranges(*part, model_.operators()));
  return part;
}

absl::Status LocalState::settle(Step from, const std::optional<LocalSave>& chosen) {
  if (!is_used()) return absl::OkStatus();
  RETURN_IF_ERROR(locate());
  std::optional<LocalSave> own;
  if (chosen) own = own_of(found_, *chosen);
  return settle_local_saves(*environment_.files, directory_, from, own);
}

absl::Status LocalState::open(SaverOptions options, Step pinned) {
  if (!is_used()) return absl::OkStatus();
  RETURN_IF_ERROR(locate());
  options.directory = directory_;
  options.keep_newest = model_.config().checkpoint.local_keep_newest;
  options.pinned = pinned;
  options.joins_others = false;
  // Nobody else reads or writes here, and shared storage need not answer.
  options.may_write = nullptr;
  options.may_publish = nullptr;
  ASSIGN_OR_RETURN(tier_, LocalTier::open(*environment_.files, std::move(options)));
  return absl::OkStatus();
}

absl::Status LocalState::save(const TrainingPosition& position, View run, bool waits) {
  saving_ = position.step;
  RETURN_IF_ERROR(tier_->begin(position, run, shard_sources(model_.operators())));
  return waits ? tier_->wait_prepared(absl::InfiniteDuration()) : absl::OkStatus();
}

absl::Status LocalState::commit(Step prepared, bool waits) {
  if (!tier_) return absl::OkStatus();
  tier_->commit(prepared);
  return waits ? tier_->wait_committed(absl::InfiniteDuration()) : absl::OkStatus();
}

absl::Status LocalState::look_after_saves() {
  if (!tier_) return absl::OkStatus();
  absl::Status written = tier_->wait_prepared(absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(written)) written = absl::OkStatus();
  if (!written.ok()) tier_->discard(saving_);
  absl::Status committed = tier_->wait_committed(absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(committed)) committed = absl::OkStatus();
  return written.ok() ? committed : written;
}

void LocalState::unpin() {
  if (tier_) tier_->unpin();
}

}  // namespace evermoe
