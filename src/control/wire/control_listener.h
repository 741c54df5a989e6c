// The end of control streams to which others attach.
//
// Over a network (TCP) nobody is heard who does not have the job's keys: TLS in which both ends
// present the job's certificate (control/keys/job_keys.h), with limits before that
// (control_door.h). Inside a machine (AF_UNIX) the folder of the socket keeps other users out
// (private_folder.h), because gRPC does not tell who has connected there.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "control/keys/job_keys.h"
#include "control/wire/control_stream.h"

namespace evermoe {

class ControlListener {
 public:
  // "127.0.0.1:0" (takes a free port) or "unix:/a/path", in a folder that is closed to other users.
  // Internal if it cannot be had; InvalidInput for an address of a network without keys, and for a
  // path that others can reach. `events` must outlive the listener. Who attaches and says more than
  // `envelope_bytes_max` at once is cut.
  static absl::StatusOr<std::unique_ptr<ControlListener>> start(
      const std::string& address, StreamEvents& events,
      const std::shared_ptr<const JobKeys>& keys = nullptr,
      size_t envelope_bytes_max = kEnvelopeBytesMax);
  // What has been sent goes out first where the other end reads it within kFarewell; then every
  // stream breaks.
  ~ControlListener();
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;

  static constexpr absl::Duration kFarewell = absl::Seconds(1);
  // A hello is small: who begins with more is not one of ours.
  static constexpr size_t kFirstEnvelopeBytesMax = size_t{64} << 10;

  // Where to attach: with the port that was taken.
  const std::string& address() const { return address_; }

  // Any thread; never blocks. Nothing happens on a stream that is gone. One whose other end has
  // stopped reading is broken when kOutboxMax envelopes wait.
  void send(StreamNumber stream, const Envelope& envelope);
  // At once: what has not gone out is dropped, and no event of it follows.
  void close(StreamNumber stream);

 private:
  class Service;
  ControlListener(std::string address, std::unique_ptr<Service> service);
  const std::string address_;
  const std::unique_ptr<Service> service_;
};

}  // namespace evermoe
