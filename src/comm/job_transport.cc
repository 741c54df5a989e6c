#include "comm/job_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "comm/host_address.h"

namespace evermoe {
namespace {

// Between the two addresses in the detail of an "auto" address; neither contains it.
constexpr char kBetween = '|';

// Offers both kinds and decides when it sees where everybody is.
class AutoListener final : public TransportListener {
 public:
  AutoListener(std::unique_ptr<TransportListener> same_machine, std::unique_ptr<TransportListener> any_machine)
      : same_machine_(std::move(same_machine)),
        any_machine_(std::move(any_machine)),
        address_(to_string({"auto", this_machine(),
                            absl::StrCat(same_machine_->address(), std::string(1, kBetween), any_machine_->address())})) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> open(Rank, int, View) override { return Unsupported("open"); }
  absl::StatusOr<std::unique_ptr<Transport>> connect(Rank rank, const std::vector<std::string>& addresses,
                                                     absl::Duration timeout) override {
    std::vector<std::string> on_machine, anywhere;
    bool together = true;
    for (const std::string& text : addresses) {
      ASSIGN_OR_RETURN(const HostAddress address, parse_address(text));
      const std::pair<std::string, std::string> both = absl::StrSplit(address.detail, absl::MaxSplits(kBetween, 1));
      if (address.kind != "auto" || both.second.empty()) {
        return InvalidInput(absl::StrCat("rank ", on_machine.size(), " does not use the transport \"auto\""));
      }
      on_machine.push_back(both.first);
      anywhere.push_back(both.second);
      together = together && address.machine == this_machine();
    }
    return together ? same_machine_->connect(rank, on_machine, timeout)
                    : any_machine_->connect(rank, anywhere, timeout);
  }

 private:
  const std::unique_ptr<TransportListener> same_machine_;
  const std::unique_ptr<TransportListener> any_machine_;
  const std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TransportListener>> listen_job(const JobTransportOptions& options) {
  if (options.kind == JobTransportKind::kUnix) return listen_unix(options.unix_options);
  if (options.kind == JobTransportKind::kUcx) return listen_ucx(options.ucx_options);
  ASSIGN_OR_RETURN(auto same_machine, listen_unix(options.unix_options));
  ASSIGN_OR_RETURN(auto any_machine, listen_ucx(options.ucx_options));
  return std::make_unique<AutoListener>(std::move(same_machine), std::move(any_machine));
}

absl::StatusOr<JobTransportKind> parse_transport_kind(const std::string& name) {
  if (name == "auto") return JobTransportKind::kAuto;
  if (name == "unix") return JobTransportKind::kUnix;
  if (name == "ucx") return JobTransportKind::kUcx;
  return InvalidInput(absl::StrCat("transport \"", name, "\" is none of auto, unix, ucx"));
}

}  // namespace evermoe
