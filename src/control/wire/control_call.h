// The end of a control stream that attaches to a listener. One attempt: who wants to try again
// makes another one.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "control/keys/job_keys.h"
#include "control/wire/control_stream.h"

namespace evermoe {

class ControlCall {
 public:
  // Returns at once; that nobody listens there is an on_broken(). `events` hears of the stream
  // under the given number, until the call is destroyed. An address of a network needs the job's
  // keys: without them this is a CHECK; who does not have the same ones breaks the stream.
  ControlCall(const std::string& address, StreamNumber number, StreamEvents& events,
              const std::shared_ptr<const JobKeys>& keys = nullptr);
  // Breaks it off; what has not gone out is dropped. Not from inside an event.
  ~ControlCall();
  ControlCall(const ControlCall&) = delete;
  ControlCall& operator=(const ControlCall&) = delete;

  // What has been sent goes out, and the stream ends; true if the other end has read it all within
  // `timeout`. Nothing is sent afterwards, and no event follows. Not from inside an event.
  bool finish(absl::Duration timeout);

  // Any thread; never blocks. False if kOutboxMax envelopes wait already. On a stream that is
  // broken nothing happens.
  bool send(const Envelope& envelope);

 private:
  class Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace evermoe
