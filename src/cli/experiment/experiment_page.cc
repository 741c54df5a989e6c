#include "cli/experiment/experiment_page.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/experiment/experiment_numbers.h"
#include "cli/experiment/experiment_tables.h"
#include "planner/report/report_charts.h"
#include "protection/strategy/strategy_names.h"

namespace evermoe {
namespace {

// Where one run's time went, in seconds; together they are all of its time but begin and end.
struct Cause {
  const char* name;
  const char* colour;
  double (*seconds)(const nlohmann::json& run);
};

double phase(const nlohmann::json& run, const char* name) {
  const double value = run_number(run.at("recovery"), name);
  return std::isnan(value) ? 0 : value;
}

double useful(const nlohmann::json& run) {
  return run_number(run, "steps") * run_number(run, "step_seconds");
}
double undone(const nlohmann::json& run) {
  return run_number(run, "undone_steps") * run_number(run, "step_seconds");
}
double whole(const nlohmann::json& run) {
  return run_number(run, "seconds") - run_number(run, "beside_seconds");
}

constexpr Cause kCauses[] = {
    {"training", "#1b7f5c", useful},
    {"training undone and repeated", "#d55e00", undone},
    {"detection", "#f0c419",
     [](const nlohmann::json& run) { return phase(run, "detect_seconds"); }},
    {"new processes and view", "#e69f00",
     [](const nlohmann::json& run) { return phase(run, "view_seconds"); }},
    {"state gathered", "#cc79a7",
     [](const nlohmann::json& run) { return phase(run, "load_seconds"); }},
    {"catch-up", "#0072b2",
     [](const nlohmann::json& run) { return phase(run, "catch_up_seconds"); }},
    {"until the next step", "#56b4e9", [](const nlohmann::json& run) {
       // Steps since the checkpoint are in it where everybody went back to disk.
       return std::max(0.0, phase(run, "resume_seconds") - undone(run));
     }}};

constexpr std::pair<const char*, const char*> kPagePhases[] = {
    {"detection", "detect_seconds"},
    {"new processes and view", "view_seconds"},
    {"state gathered", "load_seconds"},
    {"catch-up", "catch_up_seconds"},
    {"until the next step", "resume_seconds"}};

class PageWriter {
 public:
  PageWriter(const nlohmann::json& report, const std::optional<RuntimeProfile>& profile)
      : report_(report), profile_(profile) {
    for (const nlohmann::json& run : report.at("runs")) {
      add(processes_, run.at("failure_process"));
      add(systems_, run.at("system"));
    }
  }

  ReportPage page(const std::string& title) {
    ReportPage page{.title = title,
                    .summary =
                        "The same failures, with real kills, played to each system in "
                        "turns, and what was predicted for them. ETTR: undisturbed seconds "
                        "of the steps over the seconds that the run took."};
    page.blocks.push_back(tiles());
    for (const std::string& process : processes_) page.blocks.push_back(ettr_chart(process));
    page.blocks.push_back(summary_table(report_, processes_, systems_));
    for (const std::string& process : processes_) page.blocks.push_back(time_chart(process));
    for (const std::string& process : processes_) page.blocks.push_back(phase_chart(process));
    if (has_losses()) page.blocks.push_back(loss_chart());
    page.blocks.push_back(run_table(report_));
    page.blocks.push_back(cost_table(report_));
    if (profile_) page.blocks.push_back(profile_table(*profile_));
    page.blocks.push_back(assumptions());
    return page;
  }

 private:
  static void add(std::vector<std::string>& names, const std::string& name) {
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }

  // The runs of one system under one process that finished.
  std::vector<const nlohmann::json*> runs(const std::string& process,
                                          const std::string& system) const {
    std::vector<const nlohmann::json*> found;
    for (const nlohmann::json& run : report_.at("runs")) {
      if (run.at("failure_process") == process && run.at("system") == system &&
          run.at("ettr").is_number())
        found.push_back(&run);
    }
    return found;
  }

  template <typename Value>
  double mean_of(const std::string& process, const std::string& system, Value value) const {
    double sum = 0;
    const std::vector<const nlohmann::json*> found = runs(process, system);
    for (const nlohmann::json* run : found) sum += value(*run);
    return found.empty() ? kGap : sum / static_cast<double>(found.size());
  }

  std::string named(const std::string& title, const std::string& process) const {
    return processes_.size() == 1 ? title : absl::StrCat(title, ": ", process);
  }

  ReportTiles tiles() const {
    double best = kGap, worst_error = kGap;
    std::string best_name, worst_name;
    for (const nlohmann::json& summary : report_.at("summaries")) {
      const std::string name = absl::StrCat(summary.at("system").get<std::string>(), ", ",
                                            summary.at("failure_process").get<std::string>());
      const double ettr = run_number(summary, "ettr"),
                   error = run_number(summary, "prediction_error");
      const bool is_exact =
          strategy_of(*strategy_kind_of(summary.at("strategy").get<std::string>())).is_exact;
      if (is_exact && !(ettr <= best) && !std::isnan(ettr)) {
        best = ettr;
        best_name = name;
      }
      if (!std::isnan(error) && !(std::abs(error) <= std::abs(worst_error))) {
        worst_error = error;
        worst_name = name;
      }
    }
    return {{{"Best exact strategy", share_text(best), best_name},
             {"Largest prediction error, points", points_text(worst_error), worst_name},
             {"Runs", absl::StrCat(report_.at("runs").size()),
              absl::StrCat(unfinished(), " of them did not finish")},
             {"Exact strategies", same_digests() ? "same bits" : "BITS DIFFER",
              "digests at the end, of all that finished"}}};
  }

  int64_t unfinished() const {
    return std::ranges::count_if(
        report_.at("runs"), [](const nlohmann::json& run) { return !run.at("ettr").is_number(); });
  }

  bool same_digests() const {
    std::set<std::string> digests;
    for (const nlohmann::json& run : report_.at("runs")) {
      // Other systems may change lanes or experts, and with them the bits.
      const bool is_of_strategy = run.at("system") == run.at("strategy");
      if (run.at("status") == "finished" && run.at("is_exact") == true && is_of_strategy)
        digests.insert(run.at("digest"));
    }
    return digests.size() <= 1;
  }

  ReportChart ettr_chart(const std::string& process) const {
    std::vector<BarSeries> bars = {{"measured", "#0072b2", {}}, {"predicted", "#e69f00", {}}};
    for (const std::string& system : systems_) {
      bars[0].values.push_back(100 * mean_of(process, system, [](const nlohmann::json& run) {
                                 return run_number(run, "ettr");
                               }));
      bars[1].values.push_back(100 * mean_of(process, system, [](const nlohmann::json& run) {
                                 return run_number(run, "predicted_ettr");
                               }));
    }
    return bar_chart(named("ETTR", process), "Means over the seeds.", "system",
                     "ETTR, % of the run's time", systems_, bars, false);
  }

  ReportChart time_chart(const std::string& process) const {
    std::vector<BarSeries> bars;
    for (const Cause& cause : kCauses) bars.push_back({cause.name, cause.colour, {}});
    bars.push_back({"slower steps, saves and the rest", "#7a7a7a", {}});
    for (const std::string& system : systems_) {
      double rest = 100;
      for (size_t c = 0; c < std::size(kCauses); ++c) {
        const double share = 100 * mean_of(process, system, [&](const nlohmann::json& run) {
                               return kCauses[c].seconds(run) / whole(run);
                             });
        bars[c].values.push_back(share);
        rest -= share;
      }
      bars.back().values.push_back(rest > 0 ? rest : std::isnan(rest) ? kGap : 0);
    }
    ReportChart chart =
        bar_chart(named("Where the time went", process),
                  "Of the run's time without begin and end. More than 100 % together: phases of a "
                  "recovery also contain the step that was under way.",
                  "system", "% of the run's time", systems_, bars, true);
    return chart;
  }

  ReportChart phase_chart(const std::string& process) const {
    std::vector<BarSeries> bars;
    for (const auto& [name, key] : kPagePhases) {
      bars.push_back({name, "", {}});
      for (const std::string& system : systems_)
        bars.back().values.push_back(mean_of(process, system, [&](const nlohmann::json& run) {
          const double failures = run_number(run, "failure_count");
          return failures > 0 ? phase(run, key) / failures : 0;
        }));
    }
    return bar_chart(
        named("A recovery, by phase", process),
        "Mean seconds for each failure, from the kill until the job's next new step. After "
        "a restart from disk the steps since the checkpoint are in the last phase.",
        "system", "s", systems_, bars, true);
  }

  bool has_losses() const {
    return std::ranges::any_of(report_.at("runs"), [](const nlohmann::json& run) {
      return run_number(run, "lost_token_share") > 0;
    });
  }

  ReportChart loss_chart() const {
    std::vector<BarSeries> bars;
    for (const std::string& process : processes_) {
      bars.push_back({process, "", {}});
      for (const std::string& system : systems_)
        bars.back().values.push_back(100 * mean_of(process, system, [](const nlohmann::json& run) {
                                       return run_number(run, "lost_token_share");
                                     }));
    }
    return bar_chart("Tokens lost",
                     "Share of what gates sent to experts that recoveries lost (PLT).", "system",
                     "% of the tokens", systems_, bars, false);
  }

  ReportNotes assumptions() const {
    ReportNotes notes{"What was assumed", {}};
    notes.sentences = {
        "Failures kill workers by SIGKILL at times that are drawn in steps of the undisturbed run; "
        "machines are there again at once, unless they are gone by the failures' name.",
        "Runs are measured by the undisturbed steps just before and after them: a machine that has "
        "become slower is in both alike, but not what made it slow for a part of one run."};
    if (profile_)
      notes.sentences.push_back(
          "A prediction plays the very failures of its run to the profile, so its error is that of "
          "the model and of the profile's noise, not of luck. A failure that comes during a "
          "recovery is taken to begin it anew, a lost node to have the roles that began on it, and "
          "partial-experts to keep its K.");
    return notes;
  }

  const nlohmann::json& report_;
  const std::optional<RuntimeProfile>& profile_;
  std::vector<std::string> processes_, systems_;
};

}  // namespace

ReportPage experiment_page(const std::string& title, const nlohmann::json& report,
                           const std::optional<RuntimeProfile>& profile) {
  return PageWriter(report, profile).page(title);
}

}  // namespace evermoe
