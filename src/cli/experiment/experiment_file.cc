#include "cli/experiment/experiment_file.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "protection/strategy/strategy_names.h"
#include "toml/toml_text.h"

namespace evermoe {
namespace {

constexpr size_t kNameBytesMax = 40;

class ExperimentReader {
 public:
  explicit ExperimentReader(const std::string& path) : path_(path) {}

  absl::StatusOr<Experiment> read(const toml::table& document) const {
    RETURN_IF_ERROR(check_keys(
        document, "", {"failures", "model", "seeds", "strategies", "systems", "yardstick_share"}));
    Experiment experiment;
    const toml::table* model = document["model"].as_table();
    if (model == nullptr) return wrong(document, "model", "a table with `config`");
    RETURN_IF_ERROR(check_keys(*model, "model.", {"config", "settings"}));
    const auto config = (*model)["config"].value<std::string>();
    if (!config || config->empty()) return wrong(*model, "model.config", "a file's name");
    experiment.config = beside(*config);
    if (model->contains("settings")) {
      ASSIGN_OR_RETURN(experiment.settings, texts(*model, "settings", "texts such as a.b=1"));
    }
    ASSIGN_OR_RETURN(experiment.systems, systems(document));
    ASSIGN_OR_RETURN(experiment.seeds, seeds(document));
    ASSIGN_OR_RETURN(experiment.failures, failures(document));
    RETURN_IF_ERROR(read_yardstick_share(document, experiment.yardstick_share));
    return experiment;
  }

 private:
  absl::Status wrong(const toml::node& where, const std::string& key,
                     const std::string& allowed) const {
    return InvalidInput(absl::StrCat(path_, ":", where.source().begin.line, ": ", key,
                                     ": missing or wrong, allowed: ", allowed));
  }

  absl::Status check_keys(const toml::table& table, const std::string& prefix,
                          const std::set<std::string>& known) const {
    return check_toml_keys(table, path_, prefix, known);
  }

  std::string beside(const std::string& name) const {
    return (std::filesystem::path(path_).parent_path() / name).lexically_normal().string();
  }

  absl::StatusOr<std::vector<std::string>> texts(const toml::table& table, const std::string& key,
                                                 const std::string& allowed) const {
    const toml::array* list = table[key].as_array();
    if (list == nullptr || list->size() > kExperimentListMax) return wrong(table, key, allowed);
    std::vector<std::string> values;
    for (const toml::node& node : *list) {
      const auto value = node.value<std::string>();
      if (!value) return wrong(node, key, allowed);
      values.push_back(*value);
    }
    return values;
  }

  absl::StatusOr<std::vector<std::string>> strategies(const toml::table& document) const {
    const std::string allowed = absl::StrCat("a list, each at most once, of ", strategy_names());
    ASSIGN_OR_RETURN(const std::vector<std::string> names, texts(document, "strategies", allowed));
    std::set<std::string> seen;
    for (const std::string& name : names) {
      if (!strategy_kind_of(name) || !seen.insert(name).second)
        return wrong(*document["strategies"].node(), "strategies", allowed);
    }
    return names;
  }

  absl::StatusOr<std::vector<ComparedSystem>> systems(const toml::table& document) const {
    std::vector<ComparedSystem> values;
    if (document.contains("strategies") || !document.contains("systems")) {
      ASSIGN_OR_RETURN(const std::vector<std::string> names, strategies(document));
      for (const std::string& name : names)
        values.push_back({name, {"protection.strategy=" + name}, true});
    }
    const std::string allowed = "tables [[systems]] with a name and settings";
    if (document.contains("systems")) {
      const toml::array* list = document["systems"].as_array();
      if (list == nullptr || list->size() > kExperimentListMax)
        return wrong(*document["systems"].node(), "systems", allowed);
      for (const toml::node& node : *list) {
        if (!node.is_table()) return wrong(node, "systems", allowed);
        ASSIGN_OR_RETURN(ComparedSystem system, read_system(*node.as_table()));
        if (std::ranges::count(values, system.name, &ComparedSystem::name) > 0)
          return wrong(node, "systems.name", "each name once, and none of the strategies above");
        values.push_back(std::move(system));
      }
    }
    if (values.empty()) return wrong(document, "strategies", "at least one, or one of [[systems]]");
    return values;
  }

  absl::StatusOr<ComparedSystem> read_system(const toml::table& table) const {
    RETURN_IF_ERROR(check_keys(table, "systems.", {"name", "settings"}));
    ComparedSystem system{.name = table["name"].value_or<std::string>("")};
    // It becomes a part of files' names.
    constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (system.name.empty() || system.name.size() > kNameBytesMax ||
        system.name.find_first_not_of(kLetters) != std::string::npos)
      return wrong(table, "systems.name",
                   absl::StrCat("up to ", kNameBytesMax, " of a-z, 0-9 and -"));
    ASSIGN_OR_RETURN(system.settings, texts(table, "settings", "texts such as a.b=1"));
    return system;
  }

  absl::StatusOr<std::vector<uint64_t>> seeds(const toml::table& document) const {
    const std::string allowed = "a list of different integers >= 0";
    const toml::array* list = document["seeds"].as_array();
    if (list == nullptr || list->empty() || list->size() > kExperimentListMax)
      return wrong(document, "seeds", allowed);
    std::vector<uint64_t> values;
    std::set<int64_t> seen;
    for (const toml::node& node : *list) {
      const auto* value = node.as_integer();
      if (value == nullptr || value->get() < 0 || !seen.insert(value->get()).second)
        return wrong(node, "seeds", allowed);
      values.push_back(static_cast<uint64_t>(value->get()));
    }
    return values;
  }

  absl::Status read_yardstick_share(const toml::table& document, double& into) const {
    if (!document.contains("yardstick_share")) return absl::OkStatus();
    const auto value = document["yardstick_share"].value<double>();
    if (!value || !(*value > 0 && *value <= 1))
      return wrong(document, "yardstick_share", "a number above 0, at most 1");
    into = *value;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<FailureProcess>> failures(const toml::table& document) const {
    const toml::array* list = document["failures"].as_array();
    if (list == nullptr || list->empty() || list->size() > kExperimentListMax)
      return wrong(document, "failures", "at least one [[failures]]");
    std::vector<FailureProcess> values;
    std::set<std::string> names;
    for (const toml::node& node : *list) {
      if (!node.is_table()) return wrong(node, "failures", "tables [[failures]]");
      ASSIGN_OR_RETURN(FailureProcess process, failure(*node.as_table()));
      RETURN_IF_ERROR(read_lost_together(*node.as_table(), process));
      RETURN_IF_ERROR(read_lost(*node.as_table(), process));
      if (!names.insert(process.name).second)
        return wrong(node, absl::StrCat("failures, ", process.name), "each process once");
      values.push_back(std::move(process));
    }
    return values;
  }

  absl::StatusOr<FailureProcess> failure(const toml::table& table) const {
    RETURN_IF_ERROR(check_keys(
        table, "failures.",
        {"back_after_steps", "law", "lost", "lost_together", "mtbf_steps", "shape", "trace"}));
    FailureProcess process;
    const bool has_trace = table.contains("trace");
    if (has_trace == table.contains("law"))
      return wrong(table, "failures.law", "either law or trace");
    if (table.contains("mtbf_steps") || !has_trace)
      RETURN_IF_ERROR(read_positive(table, "mtbf_steps", process.mtbf_steps));
    if (has_trace) return with_trace(table, process);
    const std::string law = table["law"].value_or<std::string>("");
    if (law != "exponential" && law != "weibull")
      return wrong(table, "failures.law", "exponential, weibull");
    if (law == "exponential" && table.contains("shape"))
      return wrong(table, "failures.shape", "only with law = \"weibull\"");
    if (law == "weibull") RETURN_IF_ERROR(read_positive(table, "shape", process.shape));
    process.name = law == "weibull" ? absl::StrCat(law, "-", process.shape, "-", process.mtbf_steps)
                                    : absl::StrCat(law, "-", process.mtbf_steps);
    return process;
  }

  absl::StatusOr<FailureProcess> with_trace(const toml::table& table,
                                            FailureProcess process) const {
    const std::string name = table["trace"].value_or<std::string>("");
    // The name goes into tables with commas.
    if (name.empty() || name.find_first_of(",\"\n") != std::string::npos || table.contains("shape"))
      return wrong(table, "failures.trace", "a file's name without comma or quote, and no shape");
    process.trace = beside(name);
    process.name = absl::StrCat("trace-", std::filesystem::path(name).stem().string(), "-",
                                process.mtbf_steps);
    return process;
  }

  absl::Status read_lost_together(const toml::table& table, FailureProcess& process) const {
    if (!table.contains("lost_together")) return absl::OkStatus();
    const auto value = table["lost_together"].value_exact<int64_t>();
    if (!value || *value < 1 || *value > kLostTogetherMax)
      return wrong(table, "failures.lost_together",
                   absl::StrCat("an integer from 1 to ", kLostTogetherMax));
    process.lost_together = static_cast<int>(*value);
    if (*value > 1) absl::StrAppend(&process.name, "-", *value, "-nodes");
    return absl::OkStatus();
  }

  absl::Status read_lost(const toml::table& table, FailureProcess& process) const {
    const std::string lost =
        table.contains("lost") ? table["lost"].value_or<std::string>("") : "worker";
    if (lost != "worker" && lost != "node") return wrong(table, "failures.lost", "worker, node");
    process.are_gone = lost == "node";
    if (process.are_gone) process.name += "-gone";
    if (!table.contains("back_after_steps")) return absl::OkStatus();
    if (!process.are_gone || !process.trace.empty())
      return wrong(table, "failures.back_after_steps", "only with lost = \"node\" and a law");
    RETURN_IF_ERROR(read_positive(table, "back_after_steps", process.back_after_steps));
    absl::StrAppend(&process.name, "-back-", process.back_after_steps);
    return absl::OkStatus();
  }

  absl::Status read_positive(const toml::table& table, const std::string& key, double& into) const {
    const auto value = table[key].value<double>();
    // Outside of these a run would meet thousands of failures, or none in any number of steps.
    if (!value || !(*value >= 0.1 && *value <= 1e9))
      return wrong(table, absl::StrCat("failures.", key), "a number from 0.1 to 1e9");
    into = *value;
    return absl::OkStatus();
  }

  const std::string path_;
};

}  // namespace

absl::StatusOr<Experiment> parse_experiment(const std::string& text, const std::string& path) {
  ASSIGN_OR_RETURN(const toml::table document, parse_toml(text, path));
  return ExperimentReader(path).read(document);
}

}  // namespace evermoe
