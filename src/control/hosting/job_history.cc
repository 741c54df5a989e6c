#include "control/hosting/job_history.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "control/hosting/event_json.h"
#include "control/hosting/failure_json.h"
#include "control/hosting/json_lists.h"

namespace evermoe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHistoryVersion = 1;
constexpr int64_t kHistoryBytesMax = 64 << 20;
constexpr int kDepthMax = 8;

// The newest, as JSON.
template <typename T, typename ToJson>
Json list_of(const std::vector<T>& all, const ToJson& to_json) {
  const auto kept = std::min(std::ssize(all), static_cast<std::ptrdiff_t>(kHandedOnMax));
  Json list = Json::array();
  for (auto one = all.end() - kept; one != all.end(); ++one) list.push_back(to_json(*one));
  return list;
}

template <typename T>
absl::Status read_list(const nlohmann::json& list,
                       absl::StatusOr<T> (*from)(const nlohmann::json& json),
                       std::vector<T>& into) {
  for (const nlohmann::json& one : list) {
    ASSIGN_OR_RETURN(into.emplace_back(), from(one));
  }
  return absl::OkStatus();
}

absl::StatusOr<JobHistory> history_from(const std::string& text, const std::string& job) {
  ASSIGN_OR_RETURN(const nlohmann::json json, parse_json_strictly(text, kDepthMax, kHistoryFile));
  JsonFields fields(json, kHistoryFile);
  (void)fields.integer("version", kHistoryVersion, kHistoryVersion);
  if (fields.text("job", kRecordTextBytesMax) != job) fields.problem("of another job");
  JobHistory history;
  history.restarts = static_cast<int>(fields.integer("restarts", 0, INT32_MAX));
  RETURN_IF_ERROR(read_list(fields.array("failures"), failure_from, history.failures));
  RETURN_IF_ERROR(read_list(fields.array("membership_history"), change_from, history.membership));
  RETURN_IF_ERROR(read_list(fields.array("rebalances"), rebalance_from, history.moves));
  RETURN_IF_ERROR(read_list(fields.array("moves"), move_from, history.role_moves));
  RETURN_IF_ERROR(read_list(fields.array("stragglers"), straggler_from, history.stragglers));
  RETURN_IF_ERROR(read_list(fields.array("slow_links"), slow_link_from, history.slow_links));
  RETURN_IF_ERROR(fields.status());
  return history;
}

}  // namespace

absl::Status write_history(Files& files, const std::string& out, const std::string& job,
                           const JobHistory& history) {
  const Json json{{"version", kHistoryVersion},
                  {"job", job},
                  {"restarts", history.restarts},
                  {"failures", list_of(history.failures, failure_json)},
                  {"membership_history", list_of(history.membership, change_json)},
                  {"rebalances", list_of(history.moves, rebalance_json)},
                  {"moves", list_of(history.role_moves, move_json)},
                  {"stragglers", list_of(history.stragglers, straggler_json)},
                  {"slow_links", list_of(history.slow_links, slow_link_json)}};
  return replace_file(files, join_path(out, kHistoryFile),
                      json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

JobHistory read_history(Files& files, const std::string& out, const std::string& job) {
  const auto text = read_file(files, join_path(out, kHistoryFile), kHistoryBytesMax);
  if (!text.ok()) return {};
  return history_from(*text, job).value_or(JobHistory());
}

}  // namespace evermoe
