#include "checkpoint/write/publisher_claim.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace evermoe {
namespace {

// Of processes that claim at the same moment.
constexpr int kClaimTriesMax = 10;

struct ClaimText {
  int64_t start = 0;
  int64_t term = 0;
  std::string job;
};

// "start 9 of term 2 | job NAME", for people, too.
std::string to_text(const ClaimText& claim) {
  return absl::StrCat("start ", claim.start, " of term ", claim.term, " | job ", claim.job);
}

// nullopt: it says nothing that a claim says.
std::optional<ClaimText> parse_claim(const std::string& text) {
  const std::pair<std::string, std::string> halves =
      absl::StrSplit(text, absl::MaxSplits(" | job ", 1));
  const std::vector<std::string> words = absl::StrSplit(halves.first, ' ');
  ClaimText claim{.start = 0, .term = 0, .job = halves.second};
  const bool is_claim = words.size() == 5 && absl::SimpleAtoi(words[1], &claim.start) &&
                        absl::SimpleAtoi(words[4], &claim.term);
  return is_claim && to_text(claim) == text ? std::optional(claim) : std::nullopt;
}

bool is_of_one_job(const ClaimText& a, const ClaimText& b) {
  return a.job == b.job && (!a.job.empty() || a.term == b.term);
}

bool is_later(const ClaimText& a, const ClaimText& b) {
  return is_of_one_job(a, b) && a.start > b.start;
}

}  // namespace

PublisherClaim::PublisherClaim(Files& files, const std::string& folder, FolderTerm term,
                               int64_t start)
    : files_(files),
      path_(join_path(folder, "terms/publisher")),
      term_(std::move(term)),
      start_(start) {}

absl::Status PublisherClaim::hold() const {
  if (term_.number == 0 || start_ == 0) return absl::OkStatus();
  const ClaimText own{start_, term_.number, term_.job};
  absl::Status refused;
  for (int i = 0; i < kClaimTriesMax; ++i) {
    const absl::StatusOr<std::string> text = files_.read_symlink(path_);
    if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
    if (text.ok() && *text == to_text(own)) return absl::OkStatus();
    const std::optional<ClaimText> other = text.ok() ? parse_claim(*text) : std::nullopt;
    if (other && is_later(*other, own)) {
      return absl::AbortedError(absl::StrCat(
          "another process publishes in the place of this one: start ", other->start, " of term ",
          other->term, ", this is start ", own.start, " of term ", own.term));
    }
    refused = replace_symlink(files_, to_text(own), path_);
    // Others may have taken the name in between; the next look tells whose it is.
    if (!refused.ok() && !absl::IsAlreadyExists(refused) && !absl::IsNotFound(refused))
      return refused;
  }
  return annotate(refused.ok() ? absl::UnavailableError("others claim it all the time") : refused,
                  path_);
}

}  // namespace evermoe
