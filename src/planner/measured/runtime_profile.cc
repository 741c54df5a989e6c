#include "planner/measured/runtime_profile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "protection/strategy/strategy_names.h"
#include "toml/toml_text.h"

namespace evermoe {
namespace {

constexpr double kNumberMax = 1e9, kBytesMax = 1e18;
constexpr int64_t kCountMax = 1'000'000;
constexpr size_t kBuildMax = 60;

template <typename Of>
struct NumberKey {
  const char* name;
  double Of::*field;
  const char* meaning;
};

constexpr NumberKey<StrategyProfile> kStrategyKeys[] = {
    {"step_seconds", &StrategyProfile::step_seconds,
     "of steps that no save and no failure lengthens"},
    {"begin_seconds", &StrategyProfile::begin_seconds,
     "from the start of the job until its first step begins"},
    {"end_seconds", &StrategyProfile::end_seconds, "from its last step until it has ended"},
    {"window_steps", &StrategyProfile::window_steps, "sparse: length of its windows; 0: none"},
    {"save_seconds", &StrategyProfile::save_seconds,
     "by which a durable save lengthens the steps after it"},
    {"save_lag_steps", &StrategyProfile::save_lag_steps,
     "from a durable save until a failure can go back to it"},
};

constexpr NumberKey<LossProfile> kLossKeys[] = {
    {"detect_seconds", &LossProfile::detect_seconds, "until the controller knew"},
    {"view_seconds", &LossProfile::view_seconds,
     "until new processes were there and the new view was planned"},
    {"load_seconds", &LossProfile::load_seconds, "until the last rank had gathered its state"},
    {"step_again_seconds", &LossProfile::step_again_seconds,
     "of one step that is run again; 0: none was"},
    {"settle_seconds", &LossProfile::settle_seconds,
     "what the steps afterwards took longer than they usually do"},
    {"steps_again", &LossProfile::steps_again, "that were run again, the most of any rank"},
};

constexpr NumberKey<MoveProfile> kMoveKeys[] = {
    {"hand_over_seconds", &MoveProfile::hand_over_seconds,
     "from the last commit until all had handed their states over"},
    {"switch_seconds", &MoveProfile::switch_seconds, "until the new view was planned"},
    {"load_seconds", &MoveProfile::load_seconds, "until the new processes had the states"},
    {"settle_seconds", &MoveProfile::settle_seconds,
     "by which the next commit came later than a usual step's"},
    {"bytes", &MoveProfile::bytes, "of the states that moved"},
};

constexpr NumberKey<MeasuredRecovery> kRecoveryKeys[] = {
    {"detect_seconds", &MeasuredRecovery::detect_seconds, "until a killed process was noticed"},
    {"restart_seconds", &MeasuredRecovery::restart_seconds,
     "until new processes were there, and what they then took longer"},
    {"standby_seconds", &MeasuredRecovery::standby_seconds, "the same with a warm standby"},
    {"migrate_seconds", &MeasuredRecovery::migrate_seconds,
     "pause of a move, apart from its state's way"},
};

// What a recovery's steps took longer may be less than nothing on a machine that got faster.
double least_of(const NumberKey<LossProfile>& key) {
  return key.field == &LossProfile::settle_seconds ? -kNumberMax : 0;
}
double least_of(const NumberKey<MoveProfile>& key) {
  return key.field == &MoveProfile::settle_seconds ? -kNumberMax : 0;
}
// Bytes are more than seconds.
double most_of(const NumberKey<MoveProfile>& key) {
  return key.field == &MoveProfile::bytes ? kBytesMax : kNumberMax;
}
double least_of(const auto&) { return 0; }
double most_of(const auto&) { return kNumberMax; }

bool is_build(const std::string& text) {
  return !text.empty() && text.size() <= kBuildMax && std::ranges::all_of(text, [](char c) {
    return absl::ascii_isgraph(c) && c != '"' && c != '\\';
  });
}

std::string profile_number_text(double value) {
  char buffer[64];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <typename Keys, typename Of>
void append_numbers(const Keys& keys, const Of& of, std::string& text) {
  for (const auto& key : keys)
    absl::StrAppend(&text, key.name, " = ", profile_number_text(of.*key.field), "  # ", key.meaning,
                    "\n");
}

class ProfileReader {
 public:
  explicit ProfileReader(const std::string& origin) : origin_(origin) {}

  absl::StatusOr<RuntimeProfile> read(const toml::table& document) const {
    const auto version = document["version"].value_exact<int64_t>();
    if (version != kRuntimeProfileVersion)
      return wrong(document, "version", absl::StrCat(kRuntimeProfileVersion));
    RETURN_IF_ERROR(check_keys(document, "", {"version", "job", "strategy", "recovery"}));
    const toml::table* job = document["job"].as_table();
    if (job == nullptr) return wrong(document, "job", "a table");
    ASSIGN_OR_RETURN(RuntimeProfile profile, read_job(*job));
    const toml::array* strategies = document["strategy"].as_array();
    if (strategies == nullptr || strategies->empty())
      return wrong(document, "strategy", "tables [[strategy]]");
    for (const toml::node& node : *strategies) {
      if (!node.is_table()) return wrong(document, "strategy", "tables [[strategy]]");
      ASSIGN_OR_RETURN(const StrategyProfile one, read_strategy(*node.as_table()));
      if (profile.find(one.kind) != nullptr)
        return wrong(*node.as_table(), "name", "each strategy once");
      profile.strategies.push_back(one);
    }
    if (profile.find(StrategyKind::kNone) == nullptr)
      return wrong(document, "strategy", "\"none\" among them");
    if (document.contains("recovery")) {
      profile.recovery.emplace();
      RETURN_IF_ERROR(read_table(document, "", "recovery", kRecoveryKeys, *profile.recovery));
    }
    return profile;
  }

 private:
  absl::Status wrong(const toml::table& table, const std::string& key,
                     const std::string& allowed) const {
    const toml::node* node = table.get(key);
    const auto line = (node != nullptr ? node->source() : table.source()).begin.line;
    return InvalidInput(absl::StrCat(origin_, ":", line, ": ", key, ": found ", found_in_toml(node),
                                     ", allowed: ", allowed));
  }

  absl::Status check_keys(const toml::table& table, const std::string& prefix,
                          const std::set<std::string>& known) const {
    return check_toml_keys(table, origin_, prefix, known);
  }

  absl::Status read_number(const toml::table& table, const std::string& key, double least,
                           double most, double& into) const {
    const toml::node* node = table.get(key);
    const auto value = node != nullptr && node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !(*value >= least && *value <= most))
      return wrong(table, key, absl::StrCat("a number from ", least, " to ", most));
    into = *value;
    return absl::OkStatus();
  }

  // Of what is divided by.
  absl::Status read_step(const toml::table& table, double& into) const {
    RETURN_IF_ERROR(read_number(table, "step_seconds", 0, kNumberMax, into));
    return into >= 1e-6 ? absl::OkStatus()
                        : wrong(table, "step_seconds", "a number of at least 1e-06");
  }

  absl::Status read_count(const toml::table& table, const std::string& key, int64_t least,
                          int64_t& into) const {
    const auto value = table[key].value_exact<int64_t>();
    if (!value || *value < least || *value > kCountMax)
      return wrong(table, key, absl::StrCat("an integer from ", least, " to ", kCountMax));
    into = *value;
    return absl::OkStatus();
  }

  absl::StatusOr<RuntimeProfile> read_job(const toml::table& table) const {
    RETURN_IF_ERROR(check_keys(table, "job.",
                               {"build", "fingerprint", "stages", "ranks", "nodes", "step_seconds",
                                "begin_seconds", "end_seconds"}));
    RuntimeProfile profile;
    profile.fingerprint = table["fingerprint"].value_exact<std::string>().value_or("");
    const auto digits = fingerprint_from_hex(profile.fingerprint);
    if (!digits || to_hex(*digits) != profile.fingerprint)
      return wrong(table, "fingerprint", "32 hexadecimal digits");
    profile.build = table["build"].value_exact<std::string>().value_or("");
    if (!is_build(profile.build)) return wrong(table, "build", "what evermoe --version says");
    RETURN_IF_ERROR(read_count(table, "stages", 1, profile.stages));
    RETURN_IF_ERROR(read_count(table, "ranks", profile.stages, profile.ranks));
    RETURN_IF_ERROR(read_count(table, "nodes", 1, profile.nodes));
    RETURN_IF_ERROR(read_step(table, profile.step_seconds));
    RETURN_IF_ERROR(read_number(table, "begin_seconds", 0, kNumberMax, profile.begin_seconds));
    RETURN_IF_ERROR(read_number(table, "end_seconds", 0, kNumberMax, profile.end_seconds));
    return profile;
  }

  absl::StatusOr<StrategyProfile> read_strategy(const toml::table& table) const {
    RETURN_IF_ERROR(check_keys(
        table, "strategy.", keys_of(kStrategyKeys, {"name", "move", "node", "standby", "worker"})));
    StrategyProfile profile;
    const std::string name = table["name"].value_exact<std::string>().value_or("");
    const std::optional<StrategyKind> kind = strategy_kind_of(name);
    if (!kind) return wrong(table, "name", strategy_names());
    profile.kind = *kind;
    RETURN_IF_ERROR(read_numbers(table, kStrategyKeys, profile));
    RETURN_IF_ERROR(read_step(table, profile.step_seconds));
    for (const auto& [lost, loss] :
         {std::pair{LostKind::kWorker, &profile.worker}, std::pair{LostKind::kNode, &profile.node},
          std::pair{LostKind::kStandby, &profile.standby}})
      RETURN_IF_ERROR(
          read_counted(table, to_string(lost), kLossKeys, *loss, "failures", loss->failures));
    RETURN_IF_ERROR(
        read_counted(table, "move", kMoveKeys, profile.move, "moves", profile.move.moves));
    return profile;
  }

  // A table of a strategy that may be missing, with how often what it has was measured.
  template <typename Keys, typename Of>
  absl::Status read_counted(const toml::table& strategy, const std::string& key, const Keys& keys,
                            Of& into, const char* counted, int64_t& count) const {
    if (!strategy.contains(key)) return absl::OkStatus();
    RETURN_IF_ERROR(read_table(strategy, "strategy.", key, keys, into, {counted}));
    return read_count(*strategy[key].as_table(), counted, 1, count);
  }

  template <typename Keys, typename Of>
  absl::Status read_table(const toml::table& around, const std::string& prefix,
                          const std::string& key, const Keys& keys, Of& into,
                          std::set<std::string> others = {}) const {
    const toml::table* table = around[key].as_table();
    if (table == nullptr) return wrong(around, key, "a table");
    RETURN_IF_ERROR(
        check_keys(*table, absl::StrCat(prefix, key, "."), keys_of(keys, std::move(others))));
    return read_numbers(*table, keys, into);
  }

  template <typename Keys>
  static std::set<std::string> keys_of(const Keys& numbers, std::set<std::string> others) {
    for (const auto& key : numbers) others.insert(key.name);
    return others;
  }

  template <typename Keys, typename Of>
  absl::Status read_numbers(const toml::table& table, const Keys& keys, Of& into) const {
    for (const auto& key : keys)
      RETURN_IF_ERROR(read_number(table, key.name, least_of(key), most_of(key), into.*key.field));
    return absl::OkStatus();
  }

  const std::string& origin_;
};

}  // namespace

const char* to_string(LostKind lost) {
  return lost == LostKind::kNode ? "node" : lost == LostKind::kStandby ? "standby" : "worker";
}

const StrategyProfile* RuntimeProfile::find(StrategyKind kind) const {
  const auto found = std::ranges::find(strategies, kind, &StrategyProfile::kind);
  return found == strategies.end() ? nullptr : &*found;
}

std::string job_fingerprint(JobConfig config) {
  const JobConfig usual;
  config.train.steps = usual.train.steps;
  config.train.warmup_steps = usual.train.warmup_steps;
  config.train.seed = usual.train.seed;
  config.protection.strategy = usual.protection.strategy;
  // The only key of saves that a profile covers: what one costs depends on where it goes.
  config.checkpoint.every_steps = usual.checkpoint.every_steps;
  config.evaluate = usual.evaluate;
  config.run.restarts_max = usual.run.restarts_max;
  config.data.path = config.data.tokenizer = config.data.validation_path = "";
  FingerprintStream stream;
  stream.update(to_toml(config));
  return to_hex(stream.finish());
}

absl::StatusOr<RuntimeProfile> parse_runtime_profile(const std::string& text,
                                                     const std::string& origin) {
  if (std::ssize(text) > kRuntimeProfileBytesMax)
    return InvalidInput(absl::StrCat(origin, ": found ", text.size(), " bytes, allowed: at most ",
                                     kRuntimeProfileBytesMax));
  ASSIGN_OR_RETURN(const toml::table document, parse_toml(text, origin));
  return ProfileReader(origin).read(document);
}

absl::StatusOr<RuntimeProfile> load_runtime_profile(Files& files, const std::string& path) {
  const absl::StatusOr<std::string> text = read_file(files, path, kRuntimeProfileBytesMax);
  if (absl::IsNotFound(text.status()))
    return InvalidInput(
        absl::StrCat(path, ": no such file, allowed: what `evermoe profile --job` has written"));
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  return parse_runtime_profile(*text, path);
}

std::string to_toml(const RuntimeProfile& profile) {
  std::string text = absl::StrCat(
      "# A job as it was measured on the runtime, by `evermoe profile --job` (docs/planning.md).\n"
      "version = ",
      kRuntimeProfileVersion, "\n\n[job]\nfingerprint = \"", profile.fingerprint,
      "\"  # of what its steps depend on\nbuild = \"", profile.build,
      "\"  # of evermoe\nstages = ", profile.stages, "\nranks = ", profile.ranks,
      "\nnodes = ", profile.nodes, "\nstep_seconds = ", profile_number_text(profile.step_seconds),
      "  # without protection, saves and failures\nbegin_seconds = ",
      profile_number_text(profile.begin_seconds),
      "  # from its start until its first step begins\n",
      "end_seconds = ", profile_number_text(profile.end_seconds),
      "  # from its last step until it has ended\n");
  for (const StrategyProfile& one : profile.strategies) {
    absl::StrAppend(&text, "\n[[strategy]]\nname = \"", std::string(to_string(one.kind)), "\"\n");
    append_numbers(kStrategyKeys, one, text);
    for (const LostKind lost : kLostKinds) {
      if (one.of(lost).failures == 0) continue;
      absl::StrAppend(
          &text, "[strategy.", to_string(lost), "]  # ",
          lost == LostKind::kStandby ? "the loss of a worker that had one\n" : "the loss of one\n");
      append_numbers(kLossKeys, one.of(lost), text);
      absl::StrAppend(&text, "failures = ", one.of(lost).failures, "  # so many were measured\n");
    }
    if (one.move.moves == 0) continue;
    absl::StrAppend(&text, "[strategy.move]  # of the roles of a node to another one\n");
    append_numbers(kMoveKeys, one.move, text);
    absl::StrAppend(&text, "moves = ", one.move.moves, "  # so many were measured\n");
  }
  if (profile.recovery) {
    absl::StrAppend(&text, "\n[recovery]  # for `evermoe forecast --recovery`\n");
    append_numbers(kRecoveryKeys, *profile.recovery, text);
  }
  return text;
}

}  // namespace evermoe
