#include "planner/plan/plan_input.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "config/config_key.h"

namespace evermoe {
namespace {

// Where the batch is not given: so many tokens per GPU and step, as in published large runs.
constexpr int64_t kTokensPerGpu = 8192;

absl::Status budget_in_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidInput(
      absl::StrCat("budget: ", name, ": found ", value, ", allowed: ", least, " to ", most));
}

int64_t default_sequences(const CostShape& shape, const ClusterSpec& cluster) {
  const int64_t per_gpu = std::max<int64_t>(1, kTokensPerGpu / shape.sequence_length);
  return per_gpu * cluster.gpus();
}

ActivationRecompute configured_recompute(const JobConfig& config) {
  switch (config.train.recompute) {
    case Recompute::kNone: break;
    case Recompute::kExperts: return ActivationRecompute::kExperts;
    case Recompute::kLayer: return ActivationRecompute::kLayer;
  }
  return ActivationRecompute::kNone;
}

// The costs are those of masters and moments in FP32, kOptimizerBytes.
absl::Status check_types(const JobConfig& config, const std::string& name) {
  const TrainTypes types = train_types(config.train);
  const bool has_price =
      types.compute != ElementType::kFp8 && types == train_types(config.train.precision);
  if (has_price) return absl::OkStatus();
  return InvalidInput(absl::StrCat(
      name, ": compute weights ", to_string(types.compute), ", ", describe(types.state),
      ": the planner prices fp32, bf16, fp16 and fp64 with train.master and train.moments auto"));
}

absl::StatusOr<PlannedJob> configured_job(Files& files, const std::string& path,
                                          const std::vector<std::string>& settings) {
  const absl::StatusOr<std::string> text = read_file(files, path, kConfigBytesMax);
  if (absl::IsNotFound(text.status())) {
    return InvalidInput(absl::StrCat(
        path, ": no such file, allowed: a job's configuration or the name of a preset"));
  }
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  ASSIGN_OR_RETURN(const JobConfig config,
                   parse_config(*text, path, parent_directory(path), settings));
  RETURN_IF_ERROR(check_types(config, path));
  return PlannedJob{planned_model(config, path), config.protection, config.checkpoint};
}

bool is_about_layout(const std::string& setting) {
  return absl::StartsWith(setting, "parallel.") || absl::StartsWith(setting, "train.micro_batch");
}

bool is_set(const std::vector<std::string>& settings, const std::string& key) {
  return std::any_of(settings.begin(), settings.end(), [&](const std::string& setting) {
    return absl::StartsWith(setting, key + "=");
  });
}

absl::StatusOr<PlannedJob> preset_job(const std::string& name,
                                      const std::vector<std::string>& settings) {
  const std::optional<CostShape> priced_only = cost_preset(name);
  const std::string shape = priced_only ? cost_preset_toml(*priced_only)
                                        : absl::StrCat("[model]\npreset = ", quoted(name), "\n");
  ASSIGN_OR_RETURN(
      const JobConfig config,
      parse_config(absl::StrCat(shape, "[train]\nprecision = \"bf16\"\n"), name, ".", settings));
  RETURN_IF_ERROR(check_types(config, name));
  PlannedJob job{planned_model(config, name), config.protection, config.checkpoint};
  if (priced_only) job.model.shape.latent = priced_only->latent;
  if (!is_set(settings, "protection.memory_budget")) job.protection.memory_budget = 0;
  if (!is_set(settings, "protection.copy_bandwidth"))
    job.protection.copy_bandwidth = std::numeric_limits<int64_t>::max();
  if (std::none_of(settings.begin(), settings.end(), is_about_layout)) {
    job.model.layout.reset();
    job.model.sequences = 0;
  }
  return job;
}

}  // namespace

PlannedModel planned_model(const JobConfig& config, const std::string& name) {
  JobLayout layout;
  layout.lanes.assign(config.parallel.lanes.begin(), config.parallel.lanes.end());
  layout.expert_replicas = static_cast<int>(config.parallel.expert_replicas);
  layout.micro_batches = config.train.micro_batches;
  layout.micro_batch_size = config.train.micro_batch_size;
  layout.precision = config.train.precision;
  layout.recompute = configured_recompute(config);
  return {name, config.model, config.train.precision,
          config.train.micro_batches * config.train.micro_batch_size, layout};
}

absl::StatusOr<PlannedJob> load_planned_job(Files& files, const std::string& argument,
                                            const std::vector<std::string>& settings) {
  if (absl::EndsWith(argument, ".toml")) return configured_job(files, argument, settings);
  if (!preset(argument).ok() && !cost_preset(argument)) {
    return InvalidInput(absl::StrCat(
        "model: found \"", argument, "\", allowed: a file ending in .toml, or one of ",
        absl::StrJoin(preset_names(), ", "), ", ", absl::StrJoin(cost_preset_names(), ", ")));
  }
  return preset_job(argument, settings);
}

absl::StatusOr<PlannedModel> load_planned_model(Files& files, const std::string& argument) {
  ASSIGN_OR_RETURN(PlannedJob job, load_planned_job(files, argument, {}));
  return std::move(job.model);
}

absl::StatusOr<PlannedStep> plan_step(const PlannedModel& model, const ClusterSpec& cluster) {
  PlannedStep planned{.batch = "as given"};
  if (model.layout) {
    planned.layout = *model.layout;
    if (model.tensor_parallel > 0) planned.layout.tensor_parallel = model.tensor_parallel;
    if (model.recompute) planned.layout.recompute = *model.recompute;
  } else {
    LayoutChoice choice{.sequences = model.sequences,
                        .precision = model.precision,
                        .tensor_parallel = model.tensor_parallel,
                        .recompute = model.recompute};
    if (choice.sequences == 0) {
      choice.sequences = default_sequences(model.shape, cluster);
      planned.batch = absl::StrCat(
          "chosen: about ", kTokensPerGpu,
          " tokens for each GPU, so that it grows with the cluster; --sequences fixes it");
    }
    ASSIGN_OR_RETURN(planned.layout, choose_layout(model.shape, cluster, choice));
  }
  ASSIGN_OR_RETURN(planned.step, forecast_step(model.shape, planned.layout, cluster));
  return planned;
}

absl::Status apply_layout(const LayoutWishes& wishes, PlannedModel& model) {
  if (wishes.sequences < 0)
    return InvalidInput(
        absl::StrCat("sequences: found ", wishes.sequences, ", allowed: 0 or more"));
  if (wishes.sequences > 0 && model.layout)
    return InvalidInput("sequences: found a configured batch as well, allowed: with a preset");
  if (wishes.tensor_parallel < 0)
    return InvalidInput(
        absl::StrCat("tensor_parallel: found ", wishes.tensor_parallel, ", allowed: 0 or more"));
  if (wishes.sequences > 0) model.sequences = wishes.sequences;
  model.tensor_parallel = wishes.tensor_parallel;
  if (wishes.recompute == "auto") return absl::OkStatus();
  const absl::StatusOr<ActivationRecompute> recompute = parse_recompute(wishes.recompute);
  if (!recompute.ok())
    return InvalidInput(absl::StrCat(std::string(recompute.status().message()), ", auto"));
  model.recompute = *recompute;
  return absl::OkStatus();
}

std::string missing_in_runtime(const PlannedModel& model, const JobLayout& layout) {
  std::vector<std::string> missing;
  if (model.shape.latent) missing.push_back("multi-head latent attention");
  if (layout.tensor_parallel > 1) missing.push_back("tensor parallelism");
  return absl::StrJoin(missing, " and ");
}

absl::Status check(const PlanBudget& budget) {
  RETURN_IF_ERROR(budget_in_range("host_bytes_per_gpu", budget.host_bytes_per_gpu, 0, 1e15));
  RETURN_IF_ERROR(budget_in_range("stall_share_max", budget.stall_share_max, 0, 10));
  RETURN_IF_ERROR(budget_in_range("lost_share_max", budget.lost_share_max, 0, 1));
  RETURN_IF_ERROR(budget_in_range("copies", budget.copies, 1, 8));
  RETURN_IF_ERROR(budget_in_range("window", budget.window, 0, 1000));
  RETURN_IF_ERROR(budget_in_range("save_every", static_cast<double>(budget.save_every), 0, 1e12));
  RETURN_IF_ERROR(budget_in_range("spares_max", budget.spares_max, -1, 1e6));
  RETURN_IF_ERROR(budget_in_range("spares_probability", budget.spares_probability, 1e-6, 1 - 1e-9));
  return budget_in_range("simulated_runs", budget.simulated_runs, 1, 1000);
}

}  // namespace evermoe
