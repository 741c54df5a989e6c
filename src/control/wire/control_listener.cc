#include "control/wire/control_listener.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/mutex.h"
#include "control/wire/control_outbox.h"
#include "control/wire/library_log.h"
#include "control/wire/reaction_order.h"

namespace evermoe {
namespace {

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
  ServerStream(StreamNumber number, grpc::GenericCallbackServerContext* context,
               StreamEvents& events, StreamTable& table)
      : number_(number), events_(events), table_(table), context_(context) {}

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
    absl::StatusOr<Envelope> envelope = from_buffer(incoming_);
    if (!envelope.ok()) return break_off(std::string(envelope.status().message()));
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
  void break_off(const std::string& why) {
    if (!is_told_.exchange(true)) events_.on_broken(number_, why);
    follow(outbox_.close(/*drop=*/true));
  }

  const StreamNumber number_;
  StreamEvents& events_;
  StreamTable& table_;
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

class ControlListener::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(StreamEvents& events) : events_(events) {}
  ~Service() override {
    for (const auto& stream : table_.all()) stream->say_farewell();
    table_.wait_empty(kFarewell);
    if (server_ == nullptr) return;
    server_->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));  // cancels what is left
    server_->Wait();
  }

  // The port; 0 if it cannot listen.
  int listen(const std::string& address) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(static_cast<int>(kEnvelopeBytesMax));
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    return server_ == nullptr ? 0 : port;
  }

  std::shared_ptr<ServerStream> find(StreamNumber number) { return table_.find(number); }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() != kControlMethod)
      return grpc::CallbackGenericService::CreateReactor(context);
    const StreamNumber number(++last_);
    const auto stream = std::make_shared<ServerStream>(number, context, events_, table_);
    table_.put(number, stream);
    stream->begin();
    return stream.get();
  }

 private:
  StreamEvents& events_;
  StreamTable table_;
  std::atomic<int64_t> last_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

ControlListener::ControlListener(std::string address, std::unique_ptr<Service> service)
    : address_(std::move(address)), service_(std::move(service)) {}

ControlListener::~ControlListener() = default;

absl::StatusOr<std::unique_ptr<ControlListener>> ControlListener::start(const std::string& address,
                                                                        StreamEvents& events) {
  quieten_library();
  auto service = std::make_unique<Service>(events);
  const int port = service->listen(address);
  if (port == 0) return Internal(absl::StrCat(address, ": cannot listen for the control plane"));
  std::string own = address;
  if (!absl::StartsWith(address, "unix"))
    own = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  return std::unique_ptr<ControlListener>(new ControlListener(std::move(own), std::move(service)));
}

void ControlListener::send(StreamNumber stream, const Envelope& envelope) {
  if (const auto found = service_->find(stream)) found->send(envelope);
}

void ControlListener::close(StreamNumber stream) {
  if (const auto found = service_->find(stream)) found->cut();
}

}  // namespace evermoe
