// Settings of cluster_spec.h: single keys changed from the command line.
#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "planner/cluster_model/cluster_spec.h"

namespace evermoe {
namespace {

absl::Status change(ClusterSpec& cluster, const std::string& key, const std::string& value) {
  if (key == "gpu.name") {
    ASSIGN_OR_RETURN(cluster.gpu, gpu_spec(value));
    return absl::OkStatus();
  }
  const auto& keys = cluster_keys();
  const auto known =
      std::find_if(keys.begin(), keys.end(), [&](const ClusterKey& k) { return k.name == key; });
  if (known == keys.end()) {
    const auto append_name = [](std::string* out, const ClusterKey& k) { out->append(k.name); };
    return InvalidInput(
        absl::StrCat("unknown key, allowed: gpu.name, ", absl::StrJoin(keys, ", ", append_name)));
  }
  double number = 0;
  const bool is_number =
      absl::SimpleAtod(value, &number) &&
      (!known->is_integer || number == static_cast<double>(static_cast<int64_t>(number)));
  if (is_number && known->read(number, cluster)) return absl::OkStatus();
  return InvalidInput(absl::StrCat(key, ": found \"", absl::Utf8SafeCEscape(value),
                                   "\", allowed: ", known->allowed));
}

absl::Status check_together(const ClusterSpec& cluster) {
  if (cluster.racks > cluster.nodes) {
    return InvalidInput(absl::StrCat("cluster.racks: found ", cluster.racks,
                                     ", allowed: at most cluster.nodes (", cluster.nodes, ")"));
  }
  return check(cluster.failures, cluster.racks);
}

}  // namespace

absl::StatusOr<ClusterSpec> changed(ClusterSpec cluster, const std::vector<std::string>& settings,
                                    const std::string& where) {
  for (const std::string& setting : settings) {
    const std::string place =
        absl::StrCat(where, " ", absl::Utf8SafeCEscape(setting.substr(0, 80)));
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      return InvalidInput(absl::StrCat(place, ": found no \"=\", allowed: key=value"));
    const absl::Status status =
        change(cluster, setting.substr(0, equals), setting.substr(equals + 1));
    if (!status.ok()) return annotate(status, place);
  }
  const absl::Status together = check_together(cluster);
  if (!together.ok())
    return annotate(together, absl::StrCat(where, " ", absl::StrJoin(settings, " ")));
  return cluster;
}

}  // namespace evermoe
