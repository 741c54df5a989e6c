#include "comm/job_transport.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "comm/deadline.h"
#include "comm/host_address.h"

namespace evermoe {
namespace {

// Between the two addresses in the detail of an "auto" address; neither contains it.
constexpr char kBetween = '|';

// What a table says to the two kinds.
struct BothTables {
  std::vector<PeerAddress> on_machine;
  std::vector<PeerAddress> anywhere;
  bool together = true;      // all of them are on this machine
  bool names_others = false;
};

absl::StatusOr<BothTables> split(Rank rank, const std::vector<PeerAddress>& table) {
  BothTables result;
  for (const PeerAddress& entry : table) {
    PeerAddress on_machine{"", entry.since};
    PeerAddress anywhere{"", entry.since};
    if (!entry.address.empty()) {
      ASSIGN_OR_RETURN(const HostAddress address, parse_address(entry.address));
      const std::pair<std::string, std::string> both = absl::StrSplit(address.detail, absl::MaxSplits(kBetween, 1));
      if (address.kind != "auto" || both.second.empty()) {
        return InvalidInput(absl::StrCat("rank ", result.anywhere.size(), " does not use the transport \"auto\""));
      }
      on_machine.address = both.first;
      anywhere.address = both.second;
      result.together = result.together && address.machine == this_machine();
      result.names_others = result.names_others || Rank(static_cast<int32_t>(result.anywhere.size())) != rank;
    }
    result.on_machine.push_back(std::move(on_machine));
    result.anywhere.push_back(std::move(anywhere));
  }
  return result;
}

// Streams until the first meeting, and for good if that is on one machine.
class AutoTransport final : public Transport {
 public:
  AutoTransport(std::unique_ptr<Transport> same_machine, std::unique_ptr<Transport> any_machine)
      : same_machine_(std::move(same_machine)), any_machine_(std::move(any_machine)), current_(same_machine_.get()) {}

  Rank rank() const override { return current().rank(); }
  int size() const override { return current().size(); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag, std::span<const std::byte> bytes) override {
    return current().start_send(to, tag, bytes);
  }
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag, std::span<std::byte> into) override {
    return current().start_receive(from, tag, into);
  }
  absl::Status wait(std::unique_ptr<TransportOperation> operation, absl::Duration timeout) override {
    return current().wait(std::move(operation), timeout);
  }
  bool done(TransportOperation& operation) override { return current().done(operation); }
  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override {
    const std::lock_guard lock(mutex_);
    same_machine_->revoke(groups, view, reason);
    if (any_machine_) any_machine_->revoke(groups, view, std::move(reason));
  }

  absl::StatusOr<Letter> receive_letter(absl::Duration timeout) override {
    const Deadline deadline(timeout);
    while (true) {
      Transport& asked = current();
      auto letter = asked.receive_letter(deadline.left());
      if (!absl::IsCancelled(letter.status())) return letter;
      const std::lock_guard lock(mutex_);  // not in the middle of the choice
      if (&asked == &current()) return letter;
    }
  }

  absl::Status meet(const std::vector<PeerAddress>& table, absl::Duration timeout) override {
    ASSIGN_OR_RETURN(const BothTables tables, split(rank(), table));
    if (tables.names_others && !std::exchange(has_chosen_, true)) choose(tables.together);
    return &current() == same_machine_.get() ? current().meet(tables.on_machine, timeout)
                                             : current().meet(tables.anywhere, timeout);
  }

  void cut(Rank peer) override { current().cut(peer); }

  void close() override {
    const std::lock_guard lock(mutex_);
    current().close();
  }

 private:
  Transport& current() const { return *current_.load(); }

  // An operation of before is finished once the transport it was started on is closed, and then any
  // transport can give it back.
  void choose(bool together) {
    const std::lock_guard lock(mutex_);
    if (together) return any_machine_.reset();
    same_machine_->close();
    current_ = any_machine_.get();
  }

  const std::unique_ptr<Transport> same_machine_;
  std::unique_ptr<Transport> any_machine_;  // none once it is not the choice
  std::mutex mutex_;                        // held during the choice
  std::atomic<Transport*> current_;
  bool has_chosen_ = false;  // of the thread in meet()
};

// Offers both kinds and decides when it sees where everybody is.
class AutoListener final : public TransportListener {
 public:
  AutoListener(std::unique_ptr<TransportListener> same_machine, std::unique_ptr<TransportListener> any_machine)
      : same_machine_(std::move(same_machine)),
        any_machine_(std::move(any_machine)),
        address_(to_string({"auto", this_machine(),
                            absl::StrCat(same_machine_->address(), std::string(1, kBetween), any_machine_->address())})) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> open(Rank rank, int size, View since) override {
    ASSIGN_OR_RETURN(auto same_machine, same_machine_->open(rank, size, since));
    ASSIGN_OR_RETURN(auto any_machine, any_machine_->open(rank, size, since));
    return std::make_unique<AutoTransport>(std::move(same_machine), std::move(any_machine));
  }

  // Knows everybody's place before it opens anything.
  absl::StatusOr<std::unique_ptr<Transport>> connect(Rank rank, const std::vector<std::string>& addresses,
                                                     absl::Duration timeout) override {
    std::vector<PeerAddress> table;
    for (const std::string& address : addresses) table.push_back({address, View(0)});
    ASSIGN_OR_RETURN(const BothTables tables, split(rank, table));
    std::vector<std::string> inner;
    for (const PeerAddress& entry : tables.together ? tables.on_machine : tables.anywhere) inner.push_back(entry.address);
    return (tables.together ? same_machine_ : any_machine_)->connect(rank, inner, timeout);
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
