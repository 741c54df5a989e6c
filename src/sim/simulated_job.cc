#include "sim/simulated_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check_story.h"
#include "base/fault_point.h"
#include "comm/transport/seated_transport.h"

namespace evermoe {
namespace {

bool has_double_loss_in_a_stage(const RecoveryRecord& record) {
  std::map<std::string, std::set<std::string>> lanes_of_stage;
  for (const std::string& role : record.roles)
    lanes_of_stage[role.substr(0, role.find('.'))].insert(role);
  return std::any_of(lanes_of_stage.begin(), lanes_of_stage.end(),
                     [](const auto& s) { return s.second.size() > 1; });
}

void mark_move(const MoveRecord& move, std::set<std::string>& marks) {
  marks.insert(absl::StrCat("move of roles ", to_string(move.state)));
  if (move.state != MoveRecord::State::kDone) return;
  if (move.cause.ends_with("room")) marks.insert("roles left a crowded node");
  if (move.roles.size() == 1) return;
  const bool change_places =
      std::is_permutation(move.from.begin(), move.from.end(), move.to.begin(), move.to.end());
  marks.insert(change_places ? "roles changed places" : "several roles moved in one switch");
}

// Of rare paths that recoveries took.
void mark_recoveries(const std::vector<RecoveryRecord>& recoveries, int stages,
                     std::set<std::string>& marks) {
  for (const RecoveryRecord& record : recoveries) {
    const auto segments = segments_of(record.rolled_back_stages);
    if (segments.size() > 1) marks.insert("disjoint stages");
    for (const auto& segment : segments) {
      if (segment.size() > 1) marks.insert("joint segment");
    }
    if (record.views.size() > 1) marks.insert("failure during a recovery");
    if (std::ssize(record.rolled_back_stages) == stages && !record.restarted_all)
      marks.insert("every stage back to memory");
    if (record.restarted_all) marks.insert("restart of all");
    if (record.roles.size() > 1) marks.insert("several lost");
    if (has_double_loss_in_a_stage(record) && record.verified < absl::InfiniteDuration()) {
      marks.insert("survivor of a double loss in one stage");
    }
    if (record.verified < absl::InfiniteDuration()) marks.insert("survivor verified");
    if (!record.sources.empty()) marks.insert("restored");
  }
}

// The hash model's, unless the shape names another one. `disk` outlives the trainers.
SimulatedShape with_trainer(SimulatedShape shape, SimulatedDisk& disk) {
  if (shape.make_trainer != nullptr) return shape;
  shape.make_trainer = [&disk, model = shape.model](const Topology& topology,
                                                    Transport& transport) {
    return std::make_unique<HashTrainer>(topology, transport, disk, model);
  };
  shape.digest_of = [](StageTrainer& trainer) {
    return to_hex(static_cast<HashTrainer&>(trainer).digest());
  };
  return shape;
}

}  // namespace

SimulatedJob::SimulatedJob(SimulatedShape shape, std::vector<SimulatedFault> faults)
    : shape_(with_trainer(std::move(shape), disk_)),
      topology_(shape_.lanes, static_cast<int64_t>(shape_.lanes.size())),
      network_(seats_of_job(topology_.world_size()), shape_.network),
      disk_(SimulatedDisk::Surroundings{
          .now = [this] { return network_.now(); },
          .pause = [this](absl::Duration time) { network_.pause(time); }}),
      control_(network_, shape_.control),
      workers_(network_, control_, topology_, shape_,
               [this](const std::string& agent, pid_t pid, const ExitStatus& exit) {
                 plane_.on_worker_exit(agent, pid, exit);
               }),
      plane_(network_, control_, topology_, plane_options(shape_), workers_, around_plane()),
      faults_(
          std::move(faults),
          {shape_.nodes + shape_.spares, network_, control_, workers_, plane_, disk_},
          [this](const std::string& text) { tell(text); },
          [this](const std::string& mark) { outcome_.marks.insert(mark); }) {}

SimulatedJob::~SimulatedJob() { arm_fault_points({}); }

ControlPlane::Surroundings SimulatedJob::around_plane() {
  return {.tell = [this](const std::string& text) { tell(text); },
          .mark = [this](const std::string& mark) { outcome_.marks.insert(mark); },
          .is_disk_full = [this] { return disk_.is_full(Rank(-1)); },
          .has_final_state = [this] { return disk_.newest() >= Step(shape_.model.steps); }};
}

void SimulatedJob::tell(const std::string& text) {
  outcome_.story.push_back(absl::StrCat(absl::FormatDuration(network_.now()), "  ", text));
}

SimulatedOutcome SimulatedJob::run() {
  const CheckStory story(
      [this] { return absl::StrCat("  ", absl::StrJoin(outcome_.story, "\n  ")); });
  arm_fault_points([this](const char* point, int64_t) { faults_.pass_point(point); });
  network_.after(absl::ZeroDuration(), [this] { plane_.begin(); });
  faults_.schedule();
  const bool by_itself = network_.run();
  arm_fault_points({});
  if (!by_itself) outcome_.waiting = network_.waiting();
  outcome_.duration = network_.now();
  add_findings();
  add_end();
  return outcome_;
}

void SimulatedJob::add_findings() {
  const WorkerFindings& found = workers_.found();
  outcome_.work = found.work;
  outcome_.samples = found.samples;
  outcome_.steps = found.steps;
  outcome_.membership = workers_.lanes();
  if (!outcome_.membership.empty()) outcome_.marks.insert("lanes changed");
  outcome_.processes = found.processes;
  outcome_.contradictions = found.contradictions;
  outcome_.violations = workers_.violations();
  outcome_.violations.insert(outcome_.violations.end(), plane_.violations().begin(),
                             plane_.violations().end());
  outcome_.log_bytes_peak = found.log_bytes_peak;
  outcome_.records_left = found.records_left;
  outcome_.snapshot_bytes_peak = found.snapshot_bytes_peak;
  outcome_.marks.insert(found.marks.begin(), found.marks.end());
  outcome_.marks.insert(disk_.marks().begin(), disk_.marks().end());
  outcome_.partial_restarts = disk_.partial().restarts();
  outcome_.lost_tokens = disk_.partial().lost();
  if (outcome_.lost_tokens > 0) outcome_.marks.insert("tokens of experts lost");
  outcome_.passings = faults_.passings();
  outcome_.recoveries = plane_.recoveries();
  outcome_.moves = plane_.moves();
  outcome_.stragglers = plane_.stragglers();
  outcome_.slow_links = plane_.slow_links();
  outcome_.told_lanes = plane_.lanes();
  outcome_.controllers = plane_.controllers();
  outcome_.longest_queue = control_.longest_queue();
  if (control_.envelopes_lost() > 0) outcome_.marks.insert("words lost with a line");
  if (control_.calls_failed() > 0) outcome_.marks.insert("call failed");
  if (network_.lost_in_silence() > 0) outcome_.marks.insert("peer lost in silence");
  mark_recoveries(outcome_.recoveries, topology_.stages(), outcome_.marks);
  for (const MoveRecord& move : outcome_.moves) mark_move(move, outcome_.marks);
  for (const StragglerFound& found : outcome_.stragglers)
    outcome_.marks.insert(found.is_over ? "straggler is one no more" : "straggler found");
  for (const SlowLinkFound& found : outcome_.slow_links)
    outcome_.marks.insert(found.is_over ? "slow link is slow no more" : "slow link found");
}

void SimulatedJob::add_end() {
  if (!plane_.end()) return;
  outcome_.ended = plane_.is_over();
  outcome_.ok = plane_.end()->ok;
  outcome_.reason = plane_.end()->reason;
  if (outcome_.ended && !outcome_.ok) outcome_.marks.insert("refused");
  if (outcome_.ok && outcome_.steps > 0 && outcome_.steps < shape_.model.steps)
    outcome_.marks.insert("job drained");
  if (!outcome_.ok) return;
  for (int32_t r = 0; r < topology_.world_size(); ++r)
    absl::StrAppend(&outcome_.digest, final_digest(Rank(r)).substr(0, 8));
}

// A process that was lost after the last save is not needed any more: its state is on disk.
std::string SimulatedJob::final_digest(Rank rank) const {
  const auto& digests = workers_.found().digests;
  if (const auto found = digests.find(rank); found != digests.end()) return found->second;
  const int64_t steps = workers_.found().steps;
  const auto* const state = disk_.find(Step(steps > 0 ? steps : shape_.model.steps), rank);
  return state != nullptr ? to_hex(fingerprint(*state)) : "";
}

}  // namespace evermoe
