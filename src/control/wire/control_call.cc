#include "control/wire/control_call.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/credentials.h>

#include <atomic>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "control/wire/control_outbox.h"
#include "control/wire/library_log.h"
#include "control/wire/reaction_order.h"

namespace evermoe {
namespace {

// The library ends a cancelled call by itself, without waiting for anybody, unless the machine gave
// it no threads.
constexpr absl::Duration kCancelMax = absl::Seconds(10);

std::shared_ptr<grpc::ChannelCredentials> call_credentials(const JobKeys* keys) {
  if (keys == nullptr) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = keys->authority,
                               .pem_private_key = keys->private_key,
                               .pem_cert_chain = keys->certificate});
}

std::shared_ptr<grpc::Channel> channel_to(const std::string& address, const JobKeys* keys) {
  CHECK(keys != nullptr || is_local_address(address)) << address << " needs the job's keys";
  grpc::ChannelArguments arguments;
  // Processes of a job have one name, wherever they are.
  arguments.SetSslTargetNameOverride(kJobName);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kEnvelopeBytesMax));
  // Every attempt is one of its own: shared connections remember failures and wait longer and
  // longer.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, call_credentials(keys), arguments);
}

}  // namespace

class ControlCall::Stream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(const std::string& address, StreamNumber number, StreamEvents& events, const JobKeys* keys)
      : number_(number), events_(events), stub_(channel_to(address, keys)) {
    stub_.PrepareBidiStreamingCall(&context_, kControlMethod, grpc::StubOptions(), this);
    AddHold();  // for the writes, which begin outside of reactions
    read();
    StartCall();
  }
  // False: it does not end, and the library may use it for ever. No event follows either way.
  bool end() {
    is_told_ = true;
    context_.TryCancel();
    follow(outbox_.close(/*drop=*/true));
    MutexLock lock(mutex_);
    return done_.wait_for(lock, kCancelMax,
                          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return is_done_; });
  }

  bool finish(absl::Duration timeout) {
    is_told_ = true;
    is_finishing_ = true;
    follow(outbox_.close(/*drop=*/false));
    MutexLock lock(mutex_);
    return done_.wait_for(lock, timeout, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return is_done_;
    }) && was_read_;
  }

  bool send(const Envelope& envelope) {
    const Outbox::Result result = outbox_.add(to_buffer(envelope));
    if (result == Outbox::Result::kWrite) write();
    return result != Outbox::Result::kFull;
  }

  void OnReadDone(bool ok) override {
    const Reaction reaction(reads_);
    if (!ok) return follow(outbox_.close(/*drop=*/true));
    absl::StatusOr<Envelope> envelope = from_buffer(incoming_);
    if (!envelope.ok()) {
      context_.TryCancel();
      return follow(outbox_.close(/*drop=*/true));
    }
    if (!is_told_) events_.on_envelope(number_, *std::move(envelope));
    read();
  }
  void OnWriteDone(bool ok) override {
    const Reaction reaction(writes_);
    follow(outbox_.on_written(ok));
  }
  void OnWritesDoneDone(bool) override {
    const Reaction reaction(writes_);
    remove_hold();
  }
  void OnDone(const grpc::Status& status) override {
    reads_.acquire();
    writes_.acquire();
    const std::string why = status.ok() ? "it has closed the connection" : status.error_message();
    if (!is_told_.exchange(true)) events_.on_broken(number_, why);
    const MutexLock lock(mutex_);
    is_done_ = true;
    was_read_ = status.ok();
    done_.notify_all();
  }

 private:
  void follow(Outbox::Then then) {
    if (then == Outbox::Then::kWrite) write();
    if (then != Outbox::Then::kEnd) return;
    if (!is_finishing_) return remove_hold();
    writes_.release();
    StartWritesDone();  // the other end answers when it has read everything
  }
  void read() {
    reads_.release();
    StartRead(&incoming_);
  }
  void write() {
    writes_.release();
    StartWrite(outbox_.next());
  }
  void remove_hold() {
    writes_.release();
    RemoveHold();
  }

  const StreamNumber number_;
  StreamEvents& events_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  Outbox outbox_;
  grpc::ByteBuffer incoming_;
  ReactionOrder reads_;
  ReactionOrder writes_;
  std::atomic<bool> is_told_ = false;
  std::atomic<bool> is_finishing_ = false;
  Mutex mutex_;
  CondVar done_;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool was_read_ ABSL_GUARDED_BY(mutex_) = false;  // by the other end, all of it
};

ControlCall::ControlCall(const std::string& address, StreamNumber number, StreamEvents& events,
                         const std::shared_ptr<const JobKeys>& keys)
    : stream_((quieten_library(), std::make_unique<Stream>(address, number, events, keys.get()))) {}

ControlCall::~ControlCall() {
  if (stream_->end()) return;
  log_warning("gRPC does not end a call; its memory is leaked");
  (void)stream_.release();
}

bool ControlCall::finish(absl::Duration timeout) { return stream_->finish(timeout); }

bool ControlCall::send(const Envelope& envelope) { return stream_->send(envelope); }

}  // namespace evermoe
