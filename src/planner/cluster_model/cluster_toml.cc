// The text form of cluster_spec.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "planner/cluster_model/cluster_spec.h"
#include "toml/toml_text.h"

namespace evermoe {
namespace {

constexpr size_t kShownMax = 80;
constexpr char kGpuName[] = "gpu.name";

std::string shown_text(const std::string& text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, kShownMax)), "\"");
}

std::string shown(const toml::node& node) {
  if (const auto* text = node.as_string()) return shown_text(text->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (const auto* value = node.as_integer()) return absl::StrCat(value->get());
  if (const auto* value = node.as_floating_point()) return absl::StrCat(value->get());
  if (node.is_table()) return "a table";
  return node.is_array() ? "an array" : "a date or time";
}

std::string table_of(const std::string& key) { return key.substr(0, key.find('.')); }

std::vector<std::string> known_tables() {
  std::vector<std::string> tables;
  for (const ClusterKey& key : cluster_keys()) {
    if (tables.empty() || tables.back() != table_of(key.name)) {
      if (std::find(tables.begin(), tables.end(), table_of(key.name)) == tables.end())
        tables.push_back(table_of(key.name));
    }
  }
  return tables;
}

const ClusterKey* find_key(const std::string& name) {
  for (const ClusterKey& key : cluster_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

class ClusterReader {
 public:
  explicit ClusterReader(const std::string& origin) : origin_(origin) {}

  absl::StatusOr<ClusterSpec> read(const toml::table& document) {
    for (const auto& [name, node] : document) {
      RETURN_IF_ERROR(read_table(std::string(name.str()), node, name.source()));
    }
    // A catalogued GPU comes before what changes it, and nodes have their size before their lives.
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return phase(a) < phase(b); });
    if (set_.contains("gpu.tflops") && !set_.contains(kGpuName)) cluster_.gpu.name = kUnnamedGpu;
    for (const Entry& entry : entries_) RETURN_IF_ERROR(apply(entry));
    RETURN_IF_ERROR(check_together());
    return cluster_;
  }

 private:
  struct Entry {
    std::string name;
    const toml::node* node;
  };

  static int phase(const Entry& entry) {
    return entry.name == kGpuName ? 0 : table_of(entry.name) == "failures" ? 2 : 1;
  }

  std::string place(const toml::source_region& region) const {
    return absl::StrCat(origin_, ":", region.begin.line, ":", region.begin.column);
  }

  absl::Status wrong(const toml::source_region& where, const std::string& key,
                     const std::string& found, const std::string& allowed) const {
    return InvalidInput(
        absl::StrCat(place(where), ": ", key, ": found ", found, ", allowed: ", allowed));
  }

  absl::Status read_table(const std::string& table, const toml::node& node,
                          const toml::source_region& where) {
    const std::vector<std::string> tables = known_tables();
    if (std::find(tables.begin(), tables.end(), table) == tables.end()) {
      return wrong(where, shown_text(table), "an unknown table or key",
                   absl::StrJoin(tables, ", "));
    }
    if (!node.is_table()) return wrong(where, table, shown(node), "a table");
    for (const auto& [name, value] : *node.as_table()) {
      const std::string key = absl::StrCat(table, ".", std::string(name.str()));
      if (key != kGpuName && find_key(key) == nullptr) {
        return wrong(name.source(), shown_text(key), "an unknown key",
                     absl::StrJoin(keys_of(table), ", "));
      }
      entries_.push_back({key, &value});
      set_.insert(key);
    }
    return absl::OkStatus();
  }

  static std::vector<std::string> keys_of(const std::string& table) {
    std::vector<std::string> names;
    if (table == "gpu") names.push_back("name");
    for (const ClusterKey& key : cluster_keys()) {
      if (table_of(key.name) == table) names.push_back(key.name.substr(table.size() + 1));
    }
    return names;
  }

  absl::Status apply(const Entry& entry) {
    if (entry.name == kGpuName) return apply_gpu(*entry.node);
    const ClusterKey& key = *find_key(entry.name);
    const auto value = entry.node->value<double>();
    const bool has_type = key.is_integer ? entry.node->is_integer() : entry.node->is_number();
    if (has_type && value && key.read(*value, cluster_)) return absl::OkStatus();
    return wrong(entry.node->source(), key.name, shown(*entry.node), key.allowed);
  }

  absl::Status apply_gpu(const toml::node& node) {
    const auto* name = node.as_string();
    const absl::StatusOr<GpuSpec> gpu = gpu_spec(name == nullptr ? "" : name->get());
    if (!gpu.ok())
      return wrong(node.source(), kGpuName, shown(node), absl::StrJoin(gpu_names(), ", "));
    cluster_.gpu = *gpu;
    return absl::OkStatus();
  }

  absl::Status check_together() const {
    const auto nowhere = toml::source_region{{1, 1}, {1, 1}, nullptr};
    if (set_.contains("failures.node_mtbf_hours") && set_.contains("failures.gpu_mtbf_hours")) {
      return wrong(nowhere, "failures.gpu_mtbf_hours", "node_mtbf_hours as well", "one of the two");
    }
    if (cluster_.racks > cluster_.nodes) {
      return wrong(nowhere, "cluster.racks", absl::StrCat(cluster_.racks),
                   absl::StrCat("at most cluster.nodes (", cluster_.nodes, ")"));
    }
    const absl::Status law = check(cluster_.failures, cluster_.racks);
    return law.ok() ? law : InvalidInput(absl::StrCat(origin_, ": ", std::string(law.message())));
  }

  const std::string& origin_;
  ClusterSpec cluster_ = default_cluster();
  std::vector<Entry> entries_;
  std::set<std::string> set_;
};

std::string number_text(double value, bool is_integer) {
  if (is_integer) return absl::StrCat(static_cast<int64_t>(value));
  char buffer[64];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

absl::StatusOr<ClusterSpec> parse_cluster(const std::string& text, const std::string& origin) {
  if (std::ssize(text) > kClusterBytesMax) {
    return InvalidInput(absl::StrCat(origin, ": found ", text.size(), " bytes, allowed: at most ",
                                     kClusterBytesMax));
  }
  ASSIGN_OR_RETURN(const toml::table document, parse_toml(text, origin));
  return ClusterReader(origin).read(document);
}

absl::StatusOr<ClusterSpec> load_cluster(Files& files, const std::string& path) {
  const absl::StatusOr<std::string> text = read_file(files, path, kClusterBytesMax);
  if (absl::IsNotFound(text.status()))
    return InvalidInput(absl::StrCat(path, ": no such file, allowed: a cluster as TOML"));
  if (!text.ok()) return InvalidInput(std::string(text.status().message()));
  return parse_cluster(*text, path);
}

std::string to_toml(const ClusterSpec& cluster) {
  std::string text, table;
  for (const ClusterKey& key : cluster_keys()) {
    if (!key.is_written) continue;
    if (table_of(key.name) != table) {
      absl::StrAppend(&text, table.empty() ? "" : "\n", "[", table_of(key.name), "]\n");
      table = table_of(key.name);
      const bool is_named = table == "gpu" && gpu_spec(cluster.gpu.name).ok();
      if (is_named) absl::StrAppend(&text, "name = \"", cluster.gpu.name, "\"\n");
    }
    absl::StrAppend(&text, key.name.substr(table.size() + 1), " = ",
                    number_text(key.write(cluster), key.is_integer), "  # ", key.meaning, "\n");
  }
  return text;
}

}  // namespace evermoe
