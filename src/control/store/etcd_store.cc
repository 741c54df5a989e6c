#include "control/store/etcd_store.h"

#include <grpc/support/time.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "control/store/etcd_messages.h"
#include "control/wire/library_log.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr size_t kMembersMax = 64;
constexpr int kAnswerBytesMax = 1 << 20;
constexpr int64_t kStorePemBytesMax = 1 << 20;
// Members that are away are tried again soon: a call has little time. One that is slow to answer
// has as long as a call.
constexpr int kReconnectMs = 100, kReconnectMaxMs = 500, kConnectMaxMs = 1000;

grpc::ByteBuffer to_buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string bytes_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

// Read anew by every host: certificates are replaced while jobs run.
absl::StatusOr<std::string> read_pem(const char* key, const std::string& path) {
  const auto text = read_file(real_files(), path, kStorePemBytesMax);
  if (!text.ok()) return InvalidInput(absl::StrCat("control.", key, ": ", text.status().message()));
  if (text->find("-----BEGIN ") == std::string::npos)
    return InvalidInput(absl::StrCat("control.", key, ": ", path, " is no PEM file"));
  return *text;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> tls_credentials(
    const ControlConfig& config) {
  grpc::SslCredentialsOptions options;
  ASSIGN_OR_RETURN(options.pem_root_certs, read_pem("store_authority", config.store_authority));
  if (!config.store_certificate.empty()) {
    ASSIGN_OR_RETURN(options.pem_cert_chain,
                     read_pem("store_certificate", config.store_certificate));
    ASSIGN_OR_RETURN(options.pem_private_key, read_pem("store_key", config.store_key));
  }
  return grpc::SslCredentials(options);
}

std::unique_ptr<grpc::GenericStub> stub_for(
    const std::string& member, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kAnswerBytesMax);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMaxMs);  // of one attempt
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  return std::make_unique<grpc::GenericStub>(
      grpc::CreateCustomChannel(member, credentials, arguments));
}

// Ends with the call: its deadline, or an answer.
bool wait_for(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  return queue.Next(&tag, &ok) && ok;
}

absl::Status to_status(const std::string& member, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("etcd at ", member, ": ", status.error_message());
  // "etcdserver: requested lease not found"
  return status.error_code() == grpc::StatusCode::NOT_FOUND ? NotFound(text) : Timeout(text);
}

class EtcdStore final : public HostStore {
 public:
  EtcdStore(std::vector<std::string> members, std::string key,
            const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : members_(std::move(members)), key_(std::move(key)) {
    quieten_library();
    for (const std::string& member : members_) stubs_.push_back(stub_for(member, credentials));
  }

  absl::StatusOr<LeaseNumber> grant(absl::Duration ttl, absl::Duration timeout) override {
    const auto seconds = static_cast<int64_t>(std::ceil(absl::ToDoubleSeconds(ttl)));
    ASSIGN_OR_RETURN(const std::string answer, ask("/etcdserverpb.Lease/LeaseGrant",
                                                   etcd::lease_grant_request(seconds), timeout));
    ASSIGN_OR_RETURN(const etcd::LeaseAnswer lease, etcd::read_lease_answer(answer));
    return lease.lease;
  }

  absl::Status keep_alive(LeaseNumber lease, absl::Duration timeout) override {
    ASSIGN_OR_RETURN(const std::string answer, ask_on_stream("/etcdserverpb.Lease/LeaseKeepAlive",
                                                             etcd::lease_request(lease), timeout));
    ASSIGN_OR_RETURN(const etcd::LeaseAnswer kept, etcd::read_lease_answer(answer));
    if (kept.ttl_seconds > 0) return absl::OkStatus();
    return NotFound("etcd: the lease is over");
  }

  absl::Status revoke(LeaseNumber lease, absl::Duration timeout) override {
    return ask("/etcdserverpb.Lease/LeaseRevoke", etcd::lease_request(lease), timeout).status();
  }

  absl::StatusOr<ElectedHost> claim(LeaseNumber lease, const std::string& address,
                                    absl::Duration timeout) override {
    ASSIGN_OR_RETURN(
        const std::string answer,
        ask("/etcdserverpb.KV/Txn", etcd::create_or_read_request(key_, address, lease), timeout));
    ASSIGN_OR_RETURN(const auto there, etcd::read_create_answer(answer));
    return there ? ElectedHost{there->value, there->lease} : ElectedHost{address, lease};
  }

  absl::StatusOr<std::optional<ElectedHost>> holder(absl::Duration timeout) override {
    ASSIGN_OR_RETURN(const std::string answer,
                     ask("/etcdserverpb.KV/Range", etcd::range_request(key_), timeout));
    ASSIGN_OR_RETURN(const auto there, etcd::read_range_answer(answer));
    if (!there) return std::nullopt;
    return ElectedHost{there->value, there->lease};
  }

 private:
  // The member that answered last is asked; after one that did not, the next.
  absl::StatusOr<std::string> finish(const grpc::Status& status, const grpc::ByteBuffer& answer) {
    const absl::Status result = to_status(members_[at_], status);
    if (!result.ok() && !absl::IsNotFound(result)) at_ = (at_ + 1) % members_.size();
    RETURN_IF_ERROR(result);
    return bytes_of(answer);
  }

  static void set_deadline(grpc::ClientContext& context, absl::Duration timeout) {
    // A call that fails while the connection is made leaves nobody to wait for the connection.
    context.set_wait_for_ready(true);
    context.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_micros(absl::ToInt64Microseconds(timeout), GPR_TIMESPAN)));
  }

  absl::StatusOr<std::string> ask(const std::string& method, const std::string& request,
                                  absl::Duration timeout) {
    grpc::ClientContext context;
    set_deadline(context, timeout);
    grpc::CompletionQueue queue;
    grpc::ByteBuffer answer;
    grpc::Status status;
    const auto call = stubs_[at_]->PrepareUnaryCall(&context, method, to_buffer(request), &queue);
    call->StartCall();
    call->Finish(&answer, &status, nullptr);
    (void)wait_for(queue);
    return finish(status, answer);
  }

  // One question and one answer on a stream of its own.
  absl::StatusOr<std::string> ask_on_stream(const std::string& method, const std::string& request,
                                            absl::Duration timeout) {
    grpc::ClientContext context;
    set_deadline(context, timeout);
    grpc::CompletionQueue queue;
    grpc::ByteBuffer answer;
    const auto call = stubs_[at_]->PrepareCall(&context, method, &queue);
    call->StartCall(nullptr);
    bool ok = wait_for(queue);
    if (ok) {
      call->Write(to_buffer(request), nullptr);
      ok = wait_for(queue);
    }
    if (ok) {
      call->Read(&answer, nullptr);
      ok = wait_for(queue);
    }
    if (ok) context.TryCancel();  // it has said what it had to
    grpc::Status status;
    call->Finish(&status, nullptr);
    (void)wait_for(queue);
    return finish(ok ? grpc::Status::OK : status, answer);
  }

  const std::vector<std::string> members_;
  const std::string key_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostStore>> open_etcd_store(const ControlConfig& config,
                                                           const std::string& key) {
  absl::string_view list = config.store;
  const bool has_tls = absl::ConsumePrefix(&list, "etcds://");
  const bool is_etcd = has_tls || absl::ConsumePrefix(&list, "etcd://");
  const std::vector<std::string> members = absl::StrSplit(list, ',', absl::SkipEmpty());
  bool is_right = is_etcd && !members.empty() && members.size() <= kMembersMax;
  for (const std::string& member : members) {
    const size_t colon = member.rfind(':');
    is_right = is_right && colon != std::string::npos && colon > 0 && colon + 1 < member.size() &&
               member.find('/') == std::string::npos;
  }
  if (!is_right) {
    return InvalidInput(absl::StrCat("control.store: found '", config.store,
                                     "', allowed: etcd://HOST:PORT,HOST:PORT,..., or etcds://"));
  }
  if (!has_tls)
    return std::make_unique<EtcdStore>(members, key, grpc::InsecureChannelCredentials());
  ASSIGN_OR_RETURN(const auto credentials, tls_credentials(config));
  return std::make_unique<EtcdStore>(members, key, credentials);
}

}  // namespace evermoe
