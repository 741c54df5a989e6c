#include "config/config_key.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace evermoe {
namespace {

std::string table_of(const std::string& name) { return name.substr(0, name.find('.')); }
std::string field_of(const std::string& name) { return name.substr(name.find('.') + 1); }

// Levenshtein's distance.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

const char* to_string(KeyScope scope) {
  switch (scope) {
    case KeyScope::kRun: return "run";
    case KeyScope::kBits: return "bits";
    case KeyScope::kModel: return "model";
  }
  return "";
}

constexpr char kMarkdownHead[] = R"(# Configuration

<!-- Written by `evermoe config --keys`; a test compares. Edit src/config/*_keys.cc instead. -->

A job is described by a TOML file. Each key below can also be set on the command line, `--set
train.steps=200`; settings apply after the file, in order, and their texts need no quotes. In the
file, and again among the settings, `model.preset` applies first, then `model.style`, then the rest.
Relative paths in the file are taken from the file's folder, those of settings from the current one.

The last column says what a key determines: **model** is the model or the data order, and must not
change when a checkpoint is continued; **bits** may change then, but two runs have equal bits only if
it is equal; **run** is only how the job is run. Defaults of `[model]` are those of the preset
`qwen-moe-tiny`, which is used when the file names none.
)";

// `config --keys` shows the defaults of parse_config, whose shape is a preset.
JobConfig documented_defaults() {
  JobConfig config;
  config.model = preset("qwen-moe-tiny").value();
  return config;
}

}  // namespace

const ConfigKey* find_config_key(const std::string& name) {
  for (const ConfigKey& key : config_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string nearest_config_key(const std::string& name) {
  // Longer names are noise, and the distance costs their square.
  constexpr size_t kNameMax = 100;
  if (name.size() > kNameMax) return "";
  std::string nearest;
  size_t least = std::max<size_t>(2, name.size() / 4) + 1;
  for (const ConfigKey& key : config_keys()) {
    // The right key in the wrong table, or without one, is one mistake.
    const size_t distance =
        field_of(key.name) == field_of(name) ? 1 : edit_distance(name, key.name);
    if (distance >= least) continue;
    least = distance;
    nearest = key.name;
  }
  return nearest;
}

std::vector<std::string> config_tables() {
  std::vector<std::string> tables;
  for (const ConfigKey& key : config_keys()) {
    if (tables.empty() || tables.back() != table_of(key.name)) tables.push_back(table_of(key.name));
  }
  return tables;
}

std::string config_keys_as_markdown() {
  const JobConfig defaults = documented_defaults();
  std::string text = kMarkdownHead;
  std::string table;
  for (const ConfigKey& key : config_keys()) {
    if (table_of(key.name) != table) {
      table = table_of(key.name);
      absl::StrAppend(
          &text, "\n## [", table, "]\n\n",
          "| key | meaning | allowed | default | determines |\n| --- | --- | --- | --- | --- |\n");
    }
    const std::string value = key.write(defaults);
    absl::StrAppend(&text, "| `", field_of(key.name), "` | ", key.meaning, " | ", key.allowed,
                    " | ", value.empty() ? "" : absl::StrCat("`", value, "`"), " | ",
                    to_string(key.scope), " |\n");
  }
  return text;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&result, "\\u%04X", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace evermoe
