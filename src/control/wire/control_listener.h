// The end of control streams to which others attach.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "control/wire/control_stream.h"

namespace evermoe {

class ControlListener {
 public:
  // "127.0.0.1:0" (takes a free port), "unix:/a/path" or "unix-abstract:name". Internal if it
  // cannot be had. `events` must outlive the listener.
  static absl::StatusOr<std::unique_ptr<ControlListener>> start(const std::string& address,
                                                                StreamEvents& events);
  // What has been sent goes out first where the other end reads it within kFarewell; then every
  // stream breaks.
  ~ControlListener();
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;

  static constexpr absl::Duration kFarewell = absl::Seconds(1);

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
