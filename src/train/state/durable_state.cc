#include "train/state/durable_state.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "config/identity.h"
#include "train/state/state_transfer.h"

namespace evermoe {
namespace {

constexpr size_t kAgreedTextBytesMax = 64 << 10;
constexpr size_t kReasonBytesMax = 512;
// Where a job has both, people are told which one was read.
constexpr char kOwnDisks[] = " (the nodes' own disks)";
constexpr char kSharedStorage[] = " (shared storage)";

Step step_of_path(const std::string& checkpoint) {
  const std::string name = base_name(checkpoint);
  const std::optional<Step> step = parse_step_directory(name);
  return step ? *step : parse_step_directory(name, kReplacedSuffix).value_or(Step(-1));
}

// The checkpoint of that step; empty if there is none.
std::string shared_of(Step step, const std::vector<std::string>& paths) {
  const auto found = std::ranges::find(paths, step, step_of_path);
  return found == paths.end() ? "" : *found;
}

// Rank 0's text, on every rank; cut at kAgreedTextBytesMax.
absl::StatusOr<std::string> broadcast_text(Communicator& world, const std::string& own) {
  std::vector<std::byte> buffer(kAgreedTextBytesMax);
  std::memcpy(buffer.data(), own.data(), std::min(own.size(), buffer.size() - 1));
  RETURN_IF_ERROR(world.broadcast(0, buffer));
  return std::string(reinterpret_cast<const char*>(buffer.data()));
}

// The first non-empty text by rank, on every rank; each cut at kReasonBytesMax.
absl::StatusOr<std::string> first_reason(Communicator& world, const std::string& own) {
  std::vector<std::byte> all(kReasonBytesMax * world.size());
  std::vector<int64_t> begins;
  for (int r = 0; r <= world.size(); ++r)
    begins.push_back(static_cast<int64_t>(kReasonBytesMax) * r);
  std::memcpy(all.data() + begins[world.index()], own.data(),
              std::min(own.size(), kReasonBytesMax - 1));
  RETURN_IF_ERROR(world.all_gather(all, begins));
  for (int r = 0; r < world.size(); ++r) {
    const std::string reason(reinterpret_cast<const char*>(all.data() + begins[r]));
    if (!reason.empty()) return reason;
  }
  return std::string("unknown reason");
}

// Ok if it is so on every rank; else why a rank cannot use what it reads.
absl::Status agree(Communicator& world, const absl::Status& own) {
  // 0: this rank can use it; 1: damaged, try an older one; 2: the user has to decide.
  int64_t worst[] = {own.ok() ? 0 : absl::IsInvalidArgument(own) ? 2 : 1};
  RETURN_IF_ERROR(annotate(world.all_reduce<int64_t>(worst, ReduceOp::kMax), "resume"));
  if (worst[0] == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string reason, first_reason(world, std::string(own.message())));
  return worst[0] == 2 ? InvalidInput(reason) : Corrupt(reason);
}

absl::Status compare_identity(const TrainingPosition& position, const std::string& own,
                              const std::string& path) {
  const std::string difference = identity_difference(position.model_identity, own);
  if (difference.empty()) return absl::OkStatus();
  return InvalidInput(absl::StrCat(path, " is of another model or other data: ", difference,
                                   "; use the same values, or another --out"));
}

}  // namespace

absl::StatusOr<DurableState::SharedCandidates> DurableState::agreed_candidates(
    Communicator& world) const {
  std::string own;
  if (world.index() == 0) {
    const auto found = list_checkpoints(*environment_.files, environment_.checkpoint_directory);
    const int64_t term = found.ok() && !found->empty() ? term_of(found->front()) : 0;
    own = absl::StrCat(term, "\n");
    if (found.ok()) own += absl::StrJoin(*found, "\n");
  }
  ASSIGN_OR_RETURN(const std::string agreed, broadcast_text(world, own));
  SharedCandidates shared;
  std::vector<std::string> lines = absl::StrSplit(agreed, '\n', absl::SkipEmpty());
  if (lines.empty() || !absl::SimpleAtoi(lines[0], &shared.term)) return shared;
  shared.paths.assign(lines.begin() + 1, lines.end());
  return shared;
}

// 0 if it says none, or cannot be read.
int64_t DurableState::term_of(const std::string& checkpoint) const {
  const auto reader = CheckpointReader::open(*environment_.files, checkpoint);
  return reader.ok() ? (*reader)->manifest().term : 0;
}

std::string DurableState::identity() const {
  const TokenPart& part = environment_.training;
  return absl::StrCat(model_identity(model_.config()),
                      "data.contents=", to_hex(part.file->contents()), "\ndata.part=", part.begin,
                      "..", part.end, "\n");
}

void DurableState::initialise(TrainingPosition& position) {
  const TrainConfig& train = model_.config().train;
  position = TrainingPosition();
  model_.take_balance(position.experts);
  for (OperatorState* state : model_.operators()) state->initialise(train.seed);
  if (train.precision == Precision::kFp16) position.loss_scale = train.initial_loss_scale;
}

// A checkpoint of the same model has its layers and experts, or none.
absl::Status DurableState::check_balance(const TrainingPosition& position,
                                         const std::string& path) const {
  const ModelShape& shape = model_.config().model;
  const ExpertBalance& balance = position.experts;
  const bool fits =
      balance.empty() || (std::ssize(balance) == shape.moe_layers_before(shape.layers) &&
                          std::ssize(balance.front().loads) == shape.experts);
  return fits ? absl::OkStatus() : Corrupt(path + " has a balance of another model's experts");
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> DurableState::open_checkpoint(
    const std::string& path) const {
  ASSIGN_OR_RETURN(auto checkpoint, CheckpointReader::open(*environment_.files, path));
  RETURN_IF_ERROR(compare_identity(checkpoint->position(), identity(), path));
  const PartTypes &there = checkpoint->manifest().state_types, &here = model_.types().stored.state;
  // The first save takes experts from this one.
  if (there != here && model_.config().protection.strategy == StrategyKind::kPartialExperts)
    return InvalidInput(absl::StrCat(path, " has ", describe(there), ", this run ", describe(here),
                                     "; with protection.strategy = \"partial-experts\" keep "
                                     "train.master and train.moments, or use another --out"));
  return checkpoint;
}

absl::Status DurableState::load(CheckpointReader& checkpoint, TrainingPosition& position,
                                const std::vector<OperatorState*>* some) const {
  TrainingPosition saved = checkpoint.position();
  RETURN_IF_ERROR(check_balance(saved, checkpoint.path()));
  RETURN_IF_ERROR(guard([&] {
    model_.take_balance(saved.experts);
    return load_shards(checkpoint, some != nullptr ? *some : model_.operators());
  }));
  position = std::move(saved);
  const TrainConfig& train = model_.config().train;
  if (train.precision == Precision::kFp16 && position.loss_scale < 1)
    position.loss_scale = train.initial_loss_scale;
  return absl::OkStatus();
}

absl::Status DurableState::restore_on_all_ranks(Communicator& world, const std::string& path,
                                                const Loading& loading,
                                                TrainingPosition& position) {
  auto checkpoint = open_checkpoint(path);
  RETURN_IF_ERROR(agree(world, checkpoint.status()));
  if (!loading) return agree(world, load(**checkpoint, position));
  ASSIGN_OR_RETURN(const std::vector<OperatorState*> some, loading(&(*checkpoint)->manifest()));
  return agree(world, load(**checkpoint, position, &some));
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> DurableState::open_own(
    const LocalSave& chosen, const std::string& shared) const {
  ASSIGN_OR_RETURN(auto part, local_.open_found(chosen));
  const std::string difference = identity_difference(part->position().model_identity, identity());
  if (!difference.empty()) return Corrupt("is of another model or other data: " + difference);
  if (shared.empty()) return part;
  // From one that cannot be read nobody goes on, and one with older experts is worse than this.
  const auto whole = CheckpointReader::open(*environment_.files, shared);
  const bool is_whole = whole.ok() && !is_mixed((*whole)->manifest());
  if (is_whole && !is_part_of(part->manifest(), (*whole)->manifest()))
    return Corrupt("has other bits than " + shared);
  return part;
}

// Every rank has its own part, in the layout in which it was written.
absl::Status DurableState::restore_own_on_all_ranks(Communicator& world, const LocalSave& chosen,
                                                    const std::string& shared,
                                                    TrainingPosition& position) {
  const auto part = open_own(chosen, shared);
  RETURN_IF_ERROR(agree(world, part.status()));
  return agree(world, load(**part, position));
}

absl::StatusOr<Resumption> DurableState::resume_newest(Communicator& world,
                                                       const SharedCandidates& shared,
                                                       const std::vector<LocalSave>& own,
                                                       const Loading& loading,
                                                       TrainingPosition& position) {
  Resumption resumption;
  auto next_own = own.begin();
  auto next_shared = shared.paths.begin();
  while (next_own != own.end() || next_shared != shared.paths.end()) {
    const bool is_own = next_own != own.end() && (next_shared == shared.paths.end() ||
                                                  next_own->step >= step_of_path(*next_shared));
    const std::string path = is_own ? local_.path_of_found(*next_own) : *next_shared;
    const absl::Status status =
        is_own ? restore_own_on_all_ranks(world, *next_own, shared_of(next_own->step, shared.paths),
                                          position)
               : restore_on_all_ranks(world, path, loading, position);
    if (status.ok()) {
      resumption.source = path;
      if (is_own) resumption.local = *next_own;
      if (local_.is_used()) resumption.source += is_own ? kOwnDisks : kSharedStorage;
      resumption.step = position.step;
      return resumption;
    }
    if (!absl::IsDataLoss(status)) return status;
    resumption.skipped.push_back(absl::StrCat(path, ": ", std::string(status.message())));
    is_own ? static_cast<void>(++next_own) : static_cast<void>(++next_shared);
  }
  resumption.source = "initial state";
  if (loading) RETURN_IF_ERROR(loading(nullptr).status());
  RETURN_IF_ERROR(guard([&] {
    initialise(position);
    return absl::OkStatus();
  }));
  return resumption;
}

absl::StatusOr<Resumption> DurableState::resume(Communicator& world, TrainingPosition& position,
                                                const Loading& loading) {
  ASSIGN_OR_RETURN(const SharedCandidates shared, agreed_candidates(world));
  ASSIGN_OR_RETURN(const std::vector<LocalSave> own, local_.find(world, shared.term));
  ASSIGN_OR_RETURN(Resumption resumption, resume_newest(world, shared, own, loading, position));
  RETURN_IF_ERROR(outlive_locally(position.step, local_.settle(position.step, resumption.local)));
  return resumption;
}

absl::Status DurableState::restore(Step step, const Fingerprint& own_saves,
                                   TrainingPosition& position) {
  if (step <= Step(0)) {
    return guard([&] {
      initialise(position);
      return absl::OkStatus();
    });
  }
  if (own_saves != Fingerprint{}) {
    // Whatever is wrong with the own one, shared storage may have it.
    const auto own = local_.open_committed(step, own_saves);
    if (own.ok() && load(**own, position).ok()) return absl::OkStatus();
  }
  const std::string path = join_path(environment_.checkpoint_directory, step_directory_name(step));
  ASSIGN_OR_RETURN(const auto shared, open_checkpoint(path));
  if (own_saves != Fingerprint{} && is_mixed(shared->manifest()))
    return NotFound(path + " has experts of older steps, and all went on from their own disks");
  return load(*shared, position);
}

}  // namespace evermoe
