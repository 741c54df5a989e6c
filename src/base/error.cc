#include "base/error.h"

#include <new>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace evermoe {
namespace {

constexpr char kAccusedRank[] = "evermoe/accused_rank";
constexpr char kContradiction[] = "evermoe/contradiction";

absl::Status accuse(absl::Status status, Rank accused) {
  status.SetPayload(kAccusedRank, absl::Cord(absl::StrCat(accused.value)));
  return status;
}

}  // namespace

absl::Status InvalidInput(std::string message) { return absl::InvalidArgumentError(message); }
absl::Status PeerLost(Rank accused, std::string message) {
  return accuse(absl::UnavailableError(message), accused);
}
absl::Status Timeout(Rank accused, std::string message) {
  return accuse(absl::DeadlineExceededError(message), accused);
}
absl::Status Timeout(std::string message) { return absl::DeadlineExceededError(message); }
absl::Status Corrupt(std::string message) { return absl::DataLossError(message); }
absl::Status Contradiction(std::string message) {
  absl::Status status = absl::DataLossError(message);
  status.SetPayload(kContradiction, absl::Cord());
  return status;
}
absl::Status Hopeless(std::string message) { return absl::FailedPreconditionError(message); }
absl::Status NotFound(std::string message) { return absl::NotFoundError(message); }
absl::Status NoCapacity(std::string message) { return absl::ResourceExhaustedError(message); }
absl::Status Cancelled(std::string message) { return absl::CancelledError(message); }
absl::Status Unsupported(std::string message) { return absl::UnimplementedError(message); }
absl::Status Internal(std::string message) { return absl::InternalError(message); }

std::optional<Rank> accused_rank(const absl::Status& status) {
  const auto payload = status.GetPayload(kAccusedRank);
  int32_t rank = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &rank)) return std::nullopt;
  return Rank(rank);
}

bool is_hopeless(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

bool is_contradiction(const absl::Status& status) {
  return status.GetPayload(kContradiction).has_value();
}

absl::Status annotate(const absl::Status& status, const std::string& context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&](auto url, const absl::Cord& value) { annotated.SetPayload(url, value); });
  return annotated;
}

int exit_code(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  if (is_hopeless(status) || is_contradiction(status)) return kExitHopeless;
  return absl::IsInvalidArgument(status) ? kExitBadInput : kExitFailed;
}

void throw_if_error(const absl::Status& status) {
  if (!status.ok()) throw StatusError(status);
}

absl::Status guard(const std::function<absl::Status()>& body) noexcept {
  try {
    return body();
  } catch (const StatusError& error) {
    return error.status;
  } catch (const std::bad_alloc&) {
    return NoCapacity("out of memory");
  } catch (const std::exception& error) {
    return Internal(error.what());
  }
}

}  // namespace evermoe
