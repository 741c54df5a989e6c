#include "cli/commands/host_list.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace evermoe {
namespace {

constexpr size_t kNumberDigitsMax = 9;

absl::Status wrong(const std::string& list, const std::string& why) {
  return InvalidInput(absl::StrCat("host list '", list.substr(0, 200), "': ", why));
}

// Commas inside of brackets belong to these.
absl::StatusOr<std::vector<std::string>> split(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth < 0 || depth > 1) return wrong(list, "brackets do not match");
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (depth != 0) return wrong(list, "brackets do not match");
  return parts;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= kNumberDigitsMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return '0' <= c && c <= '9'; });
}

std::string padded(int64_t number, size_t width) {
  std::string text = absl::StrCat(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

// "001-003,7".
absl::StatusOr<std::vector<std::string>> numbers_of(const std::string& list,
                                                    const std::string& ranges) {
  std::vector<std::string> numbers;
  const std::vector<std::string> parts = absl::StrSplit(ranges, ',');
  for (const std::string& range : parts) {
    const std::vector<std::string> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    int64_t first = 0, last = 0;
    for (const std::string& end : ends) {
      if (!is_number(end)) return wrong(list, absl::StrCat("'", range, "' is no range of numbers"));
    }
    (void)absl::SimpleAtoi(ends.front(), &first);
    (void)absl::SimpleAtoi(ends.back(), &last);
    if (last < first) return wrong(list, absl::StrCat("'", range, "' is no range of numbers"));
    if (static_cast<size_t>(last - first) >= kHostsMax - numbers.size())
      return wrong(list, "too many hosts");
    for (int64_t n = first; n <= last; ++n) numbers.push_back(padded(n, ends.front().size()));
  }
  return numbers;
}

// Every beginning with every continuation.
absl::Status multiply(const std::string& list, const std::vector<std::string>& by,
                      std::vector<std::string>& names) {
  if (names.size() * by.size() > kHostsMax) return wrong(list, "too many hosts");
  std::vector<std::string> product;
  for (const std::string& name : names) {
    for (const std::string& end : by) product.push_back(name + end);
  }
  names = std::move(product);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> expand(const std::string& list, const std::string& part) {
  std::vector<std::string> names = {""};
  for (size_t at = 0; at < part.size();) {
    const size_t open = std::min(part.find('[', at), part.size());
    for (std::string& name : names) name.append(part, at, open - at);
    if (open == part.size()) break;
    const size_t close = part.find(']', open);
    ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                     numbers_of(list, part.substr(open + 1, close - open - 1)));
    RETURN_IF_ERROR(multiply(list, numbers, names));
    at = close + 1;
  }
  if (names.front().empty()) return wrong(list, "a host has no name");
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> expand_host_list(const std::string& list) {
  if (list.size() > kHostListBytesMax) return wrong(list, "it is too long");
  ASSIGN_OR_RETURN(const std::vector<std::string> parts, split(list));
  std::vector<std::string> hosts;
  for (const std::string& part : parts) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, expand(list, part));
    if (hosts.size() + names.size() > kHostsMax) return wrong(list, "too many hosts");
    hosts.insert(hosts.end(), names.begin(), names.end());
  }
  return hosts;
}

}  // namespace evermoe
