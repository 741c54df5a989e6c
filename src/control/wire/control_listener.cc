#include "control/wire/control_listener.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/mutex.h"
#include "comm/transport/socket.h"
#include "control/keys/private_file.h"
#include "control/wire/control_door.h"
#include "control/wire/control_outbox.h"
#include "control/wire/library_log.h"
#include "control/wire/reaction_order.h"
#include "env/files.h"

namespace evermoe {
namespace {

// Every call has a connection of its own (control_call.cc).
constexpr int kStreamsOfOneConnectionMax = 4;

class ServerStream;

// Who keeps the streams; told by a stream that it is over.
class StreamTable {
 public:
  void put(StreamNumber number, std::shared_ptr<ServerStream> stream) {
    const MutexLock lock(mutex_);
    streams_.emplace(number, std::move(stream));
  }
  std::shared_ptr<ServerStream> find(StreamNumber number) {
    const MutexLock lock(mutex_);
    const auto found = streams_.find(number);
    return found == streams_.end() ? nullptr : found->second;
  }
  std::shared_ptr<ServerStream> take(StreamNumber number) {
    const MutexLock lock(mutex_);
    const auto node = streams_.extract(number);
    if (streams_.empty()) empty_.notify_all();
    return node.empty() ? nullptr : node.mapped();
  }
  std::vector<std::shared_ptr<ServerStream>> all() {
    const MutexLock lock(mutex_);
    std::vector<std::shared_ptr<ServerStream>> result;
    for (const auto& [number, stream] : streams_) result.push_back(stream);
    return result;
  }
  void wait_empty(absl::Duration timeout) {
    MutexLock lock(mutex_);
    empty_.wait_for(lock, timeout,
                    [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_.empty(); });
  }

 private:
  Mutex mutex_;
  CondVar empty_;
  std::map<StreamNumber, std::shared_ptr<ServerStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

class ServerStream final : public grpc::ServerGenericBidiReactor {
 public:
  // `on_proven`: the other end has said something valid.
  ServerStream(StreamNumber number, grpc::GenericCallbackServerContext* context,
               StreamEvents& events, StreamTable& table, std::function<void()> on_proven)
      : number_(number),
        events_(events),
        table_(table),
        on_proven_(std::move(on_proven)),
        context_(context) {}

  void send(const Envelope& envelope) {
    const Outbox::Result result = outbox_.add(to_buffer(envelope));
    if (result == Outbox::Result::kWrite) write();
    if (result == Outbox::Result::kFull) break_off("it does not read what it is sent");
  }
  void say_farewell() {
    is_told_ = true;  // who ends a stream knows that it is over
    follow(outbox_.close(/*drop=*/false));
  }
  void cut() {
    is_told_ = true;
    {
      // A write to somebody who does not read ends only so.
      const MutexLock lock(mutex_);
      if (context_ != nullptr) context_->TryCancel();
    }
    follow(outbox_.close(/*drop=*/true));
  }

  void begin() {
    cancels_.release();
    read();
  }
  void read() {
    reads_.release();
    StartRead(&incoming_);
  }
  void OnReadDone(bool ok) override {
    const Reaction reaction(reads_);
    if (!ok) return break_off("it has gone");
    if (!has_spoken_ && incoming_.Length() > ControlListener::kFirstEnvelopeBytesMax)
      return cut_off("its first words are too long for a hello");
    absl::StatusOr<Envelope> envelope = from_buffer(incoming_);
    if (!envelope.ok()) return cut_off(std::string(envelope.status().message()));
    if (!std::exchange(has_spoken_, true)) on_proven_();
    if (!is_told_) events_.on_envelope(number_, *std::move(envelope));
    read();
  }
  void OnWriteDone(bool ok) override {
    const Reaction reaction(writes_);
    follow(outbox_.on_written(ok));
  }
  void OnCancel() override {
    const Reaction reaction(cancels_);
    break_off("it has gone");
  }
  void OnDone() override {
    for (ReactionOrder* const order : {&reads_, &writes_, &cancels_}) order->acquire();
    {
      const MutexLock lock(mutex_);
      context_ = nullptr;
    }
    table_.take(number_);
  }

 private:
  void follow(Outbox::Then then) {
    if (then == Outbox::Then::kWrite) write();
    if (then != Outbox::Then::kEnd) return;
    writes_.release();
    Finish(grpc::Status::OK);
  }
  void write() {
    writes_.release();
    StartWrite(outbox_.next());
  }
  // Also what it has sent and what we have: a write to it may never end.
  void cut_off(const std::string& why) {
    {
      const MutexLock lock(mutex_);
      if (context_ != nullptr) context_->TryCancel();
    }
    break_off(why);
  }
  void break_off(const std::string& why) {
    if (!is_told_.exchange(true)) events_.on_broken(number_, why);
    follow(outbox_.close(/*drop=*/true));
  }

  const StreamNumber number_;
  StreamEvents& events_;
  StreamTable& table_;
  const std::function<void()> on_proven_;
  bool has_spoken_ = false;  // of reads
  Outbox outbox_;
  grpc::ByteBuffer incoming_;
  ReactionOrder reads_;
  ReactionOrder writes_;
  ReactionOrder cancels_;
  std::atomic<bool> is_told_ = false;
  Mutex mutex_;
  grpc::GenericCallbackServerContext* context_
      ABSL_GUARDED_BY(mutex_);  // null when the library is done with it
};

}  // namespace

namespace {

std::shared_ptr<grpc::ServerCredentials> server_credentials(const JobKeys& keys) {
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = keys.authority;
  options.pem_key_cert_pairs = {{keys.private_key, keys.certificate}};
  return grpc::SslServerCredentials(options);
}

// gRPC takes the place of whoever listens at a path, alive or dead.
bool is_answered(const std::string& path) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const bool connects =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  return connects || errno == EAGAIN;
}

absl::Status check_local(const std::string& address) {
  const std::string path = address.substr(address.find(':') + 1);
  if (!absl::StartsWith(address, "unix:/") || path.size() >= sizeof(sockaddr_un::sun_path))
    return InvalidInput(absl::StrCat(address, " is not unix:/PATH of at most 107 bytes"));
  RETURN_IF_ERROR(check_private_folder(parent_directory(path)));
  if (is_answered(path)) return Internal(absl::StrCat(address, ": somebody listens there"));
  return absl::OkStatus();
}

}  // namespace

class ControlListener::Service final : public grpc::CallbackGenericService {
 public:
  Service(StreamEvents& events, size_t envelope_bytes_max)
      : events_(events), envelope_bytes_max_(envelope_bytes_max) {}
  ~Service() override {
    if (door_ != nullptr) door_->stop();
    for (const auto& stream : table_.all()) stream->say_farewell();
    table_.wait_empty(kFarewell);
    if (server_ == nullptr) return;
    server_->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));  // cancels what is left
    server_->Wait();
  }

  absl::Status listen_locally(const std::string& address) {
    RETURN_IF_ERROR(check_local(address));
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    return start(builder, address);
  }

  // Its port.
  absl::StatusOr<int> listen(const std::string& address, const JobKeys& keys) {
    ASSIGN_OR_RETURN(door_, ControlDoor::open(address));
    grpc::ServerBuilder builder;
    const std::shared_ptr way_in = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        server_credentials(keys));
    RETURN_IF_ERROR(start(builder, address));
    door_->start([way_in](int connection) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters accepted;
      accepted.fd = connection;
      way_in->HandleNewConnection(&accepted);
    });
    return door_->port();
  }

  std::shared_ptr<ServerStream> find(StreamNumber number) { return table_.find(number); }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() != kControlMethod)
      return grpc::CallbackGenericService::CreateReactor(context);
    const StreamNumber number(++last_);
    const auto stream = std::make_shared<ServerStream>(number, context, events_, table_,
                                                       [this, peer = context->peer()] {
                                                         if (door_ != nullptr)
                                                           door_->on_proven(peer);
                                                       });
    table_.put(number, stream);
    stream->begin();
    return stream.get();
  }

 private:
  absl::Status start(grpc::ServerBuilder& builder, const std::string& address) {
    builder.AddChannelArgument(
        GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
        static_cast<int>(absl::ToInt64Milliseconds(UnprovenConnections::kAgeMax)));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsOfOneConnectionMax);
    builder.SetMaxReceiveMessageSize(static_cast<int>(envelope_bytes_max_));
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    if (server_ != nullptr) return absl::OkStatus();
    return Internal(absl::StrCat(address, ": cannot listen for the control plane"));
  }

  StreamEvents& events_;
  const size_t envelope_bytes_max_;
  StreamTable table_;
  std::atomic<int64_t> last_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ControlDoor> door_;  // null inside a machine
};

ControlListener::ControlListener(std::string address, std::unique_ptr<Service> service)
    : address_(std::move(address)), service_(std::move(service)) {}

ControlListener::~ControlListener() = default;

absl::StatusOr<std::unique_ptr<ControlListener>> ControlListener::start(
    const std::string& address, StreamEvents& events, const std::shared_ptr<const JobKeys>& keys,
    size_t envelope_bytes_max) {
  quieten_library();
  auto service = std::make_unique<Service>(events, envelope_bytes_max);
  std::string own = address;
  if (is_local_address(address)) {
    RETURN_IF_ERROR(service->listen_locally(address));
  } else if (keys == nullptr) {
    return InvalidInput(absl::StrCat(address, " is a network address, and the job has no keys"));
  } else {
    ASSIGN_OR_RETURN(const int port, service->listen(address, *keys));
    own = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  }
  return std::unique_ptr<ControlListener>(new ControlListener(std::move(own), std::move(service)));
}

void ControlListener::send(StreamNumber stream, const Envelope& envelope) {
  if (const auto found = service_->find(stream)) found->send(envelope);
}

void ControlListener::close(StreamNumber stream) {
  if (const auto found = service_->find(stream)) found->cut();
}

}  // namespace evermoe
