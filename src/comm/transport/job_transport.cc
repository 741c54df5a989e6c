#include "comm/transport/job_transport.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/error.h"
#include "base/mutex.h"
#include "comm/channel/pending_operation.h"
#include "comm/transport/deadline.h"
#include "comm/transport/host_address.h"

namespace evermoe {
namespace {

// Between the two addresses in the detail of an "auto" address; neither contains it.
constexpr char kBetween = '|';

// What a table says to the two kinds: each sees the processes that it reaches, and this one.
struct SplitTable {
  std::vector<PeerAddress> near;  // on this machine
  std::vector<PeerAddress> far;
  std::vector<bool> is_far;
  bool has_far = false;
};

absl::StatusOr<SplitTable> split(Rank rank, const std::vector<PeerAddress>& table) {
  SplitTable result;
  for (size_t i = 0; i < table.size(); ++i) {
    PeerAddress near{"", table[i].since}, far{"", table[i].since};
    const bool is_own = i == static_cast<size_t>(rank.value);
    bool is_far = false;
    if (!table[i].address.empty()) {
      ASSIGN_OR_RETURN(const HostAddress address, parse_address(table[i].address));
      const std::pair<std::string, std::string> both =
          absl::StrSplit(address.detail, absl::MaxSplits(kBetween, 1));
      if (address.kind != "auto" || both.second.empty()) {
        return InvalidInput(absl::StrCat("rank ", i, " does not use the transport \"auto\""));
      }
      is_far = !is_own && address.machine != this_machine();
      if (is_own || !is_far) near.address = both.first;
      if (is_own || is_far) far.address = both.second;
    }
    result.near.push_back(std::move(near));
    result.far.push_back(std::move(far));
    result.is_far.push_back(is_far);
    result.has_far = result.has_far || is_far;
  }
  return result;
}

// Brings the service messages of other machines to where those of this machine come.
//
// A thread takes them and tells the receiver by a service message of this process to itself. It
// holds as many bytes as a sender may have waiting; the rest stays where it is.
class FarServiceMessages {
 public:
  FarServiceMessages(Transport& near, Transport& far) : near_(near), far_(far) {}
  ~FarServiceMessages() { stop(); }

  void start() {
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  void stop() {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    tell_self(far_);
    if (thread_.joinable()) thread_.join();
  }

  // No service message of anybody's has this view.
  static bool is_notice(const ServiceMessage& service_message, Rank own) {
    return service_message.from == own && service_message.tag == kNotice;
  }

  // The oldest one. There is one for every notice.
  ServiceMessage take() {
    const MutexLock lock(mutex_);
    CHECK(!service_messages_.empty());
    ServiceMessage service_message = std::move(service_messages_.front());
    service_messages_.pop_front();
    bytes_ -= service_message.size;
    room_.notify_all();
    return service_message;
  }

 private:
  static constexpr Tag kNotice{View(~uint32_t{0}), kServiceGroup, 0};

  void run() {
    while (true) {
      absl::StatusOr<ServiceMessage> service_message = far_.receive_service_message(absl::Hours(1));
      if (absl::IsDeadlineExceeded(service_message.status())) continue;
      MutexLock lock(mutex_);
      if (stopped_ || !service_message.ok()) return;
      room_.wait(lock, [&] {
        mutex_.assert_held();
        return stopped_ || bytes_ == 0 ||
               bytes_ + service_message->size <= Transport::kServiceBytesMax;
      });
      if (stopped_) return;
      bytes_ += service_message->size;
      service_messages_.push_back(*std::move(service_message));
      lock.unlock();
      tell_self(near_);
    }
  }

  // Service messages to oneself always find room.
  static void tell_self(Transport& transport) {
    transport.wait(transport.start_send(transport.rank(), kNotice, {}), absl::ZeroDuration())
        .IgnoreError();
  }

  Transport& near_;
  Transport& far_;
  Mutex mutex_;
  CondVar room_;
  std::deque<ServiceMessage> service_messages_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Streams to processes of this machine, UCX to those of others.
class PairedTransport final : public Transport {
 public:
  PairedTransport(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far)
      : near_(std::move(near)),
        far_(std::move(far)),
        far_service_messages_(*near_, *far_),
        is_far_(static_cast<size_t>(near_->size())) {}
  ~PairedTransport() override { far_service_messages_.stop(); }

  Rank rank() const override { return near_->rank(); }
  int size() const override { return near_->size(); }
  std::unique_ptr<TransportOperation> start_send(Rank to, Tag tag,
                                                 std::span<const std::byte> bytes) override {
    return way_to(to).start_send(to, tag, bytes);
  }
  std::unique_ptr<TransportOperation> start_receive(Rank from, Tag tag,
                                                    std::span<std::byte> into) override {
    return way_to(from).start_receive(from, tag, into);
  }
  // Where a rank has moved to another machine, what was under way is finished, and any transport
  // can give it back.
  absl::Status wait(std::unique_ptr<TransportOperation> operation,
                    absl::Duration timeout) override {
    Transport& way = way_of(*operation);
    return way.wait(std::move(operation), timeout);
  }
  bool done(TransportOperation& operation) override { return way_of(operation).done(operation); }
  int sends_under_way() const override {
    return near_->sends_under_way() + far_->sends_under_way();
  }
  int64_t connections_opened() const override {
    return near_->connections_opened() + far_->connections_opened();
  }

  using Transport::revoke;
  void revoke(GroupRange groups, View view, absl::Status reason) override {
    near_->revoke(groups, view, reason);
    far_->revoke(groups, view, std::move(reason));
  }

  absl::StatusOr<ServiceMessage> receive_service_message(absl::Duration timeout) override {
    ASSIGN_OR_RETURN(ServiceMessage service_message, near_->receive_service_message(timeout));
    return FarServiceMessages::is_notice(service_message, rank()) ? far_service_messages_.take()
                                                                  : std::move(service_message);
  }

  absl::Status set_peers(const std::vector<PeerAddress>& table) override;
  void connect(Rank peer, Traffic traffic) override { way_to(peer).connect(peer, traffic); }
  bool is_connected(Rank peer, Traffic traffic) const override {
    return way_to(peer).is_connected(peer, traffic);
  }
  void cut(Rank peer) override { way_to(peer).cut(peer); }

  void close() override {
    far_->close();
    far_service_messages_.stop();
    near_->close();
  }

 private:
  Transport& way_to(Rank peer) const {
    return is_far_[static_cast<size_t>(peer.value)] ? *far_ : *near_;
  }
  Transport& way_of(const TransportOperation& operation) const {
    return way_to(static_cast<const PendingOperation&>(operation).peer);
  }

  const std::unique_ptr<Transport> near_;
  const std::unique_ptr<Transport> far_;
  FarServiceMessages far_service_messages_;
  std::vector<std::atomic<bool>> is_far_;  // by rank; changed by set_peers()
};

// Who has moved is dropped first: what is under way with it is finished before anything can come to
// the other transport.
absl::Status PairedTransport::set_peers(const std::vector<PeerAddress>& table) {
  ASSIGN_OR_RETURN(const SplitTable tables, split(rank(), table));
  RETURN_IF_ERROR(near_->set_peers(tables.near));
  RETURN_IF_ERROR(far_->set_peers(tables.far));
  for (size_t i = 0; i < table.size(); ++i) is_far_[i] = tables.is_far[i];
  if (tables.has_far) far_service_messages_.start();
  return absl::OkStatus();
}

// Offers both kinds.
class AutoListener final : public TransportListener {
 public:
  AutoListener(std::unique_ptr<TransportListener> same_machine,
               std::unique_ptr<TransportListener> any_machine)
      : same_machine_(std::move(same_machine)),
        any_machine_(std::move(any_machine)),
        address_(to_string({"auto", this_machine(),
                            absl::StrCat(same_machine_->address(), std::string(1, kBetween),
                                         any_machine_->address())})) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<std::unique_ptr<Transport>> open(Rank rank, int size, View since) override {
    ASSIGN_OR_RETURN(auto same_machine, same_machine_->open(rank, size, since));
    ASSIGN_OR_RETURN(auto any_machine, any_machine_->open(rank, size, since));
    return std::make_unique<PairedTransport>(std::move(same_machine), std::move(any_machine));
  }

  // A job whose membership never changes needs no UCX on one machine.
  absl::StatusOr<std::unique_ptr<Transport>> connect(
      Rank rank, const std::vector<std::string>& addresses) override {
    std::vector<PeerAddress> table;
    for (const std::string& address : addresses) table.push_back({address, View(0)});
    ASSIGN_OR_RETURN(const SplitTable tables, split(rank, table));
    if (tables.has_far) return TransportListener::connect(rank, addresses);
    std::vector<std::string> near;
    for (const PeerAddress& entry : tables.near) near.push_back(entry.address);
    return same_machine_->connect(rank, near);
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
