// Streams of envelopes between two processes (gRPC), without gRPC in sight.
//
// The end that listens is a ControlListener (control_listener.h), the one that attaches a
// ControlCall (control_call.h). Either end learns within milliseconds when the process at the other
// end dies; that it has stopped, or that a cable is cut, only silence tells.
#pragma once

#include <string>

#include "base/ids.h"
#include "control/wire/control_messages.h"

namespace evermoe {

using StreamNumber = StrongId<struct StreamNumberName, int64_t>;

// Called by threads of the library, for one stream by one thread at a time; must not block. What
// they threw the library would drop, and who waits for this process would wait for ever.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  virtual void on_envelope(StreamNumber stream, Envelope envelope) noexcept = 0;
  // The last event of a stream; not for one that this end has closed. Also for one that never came
  // about.
  virtual void on_broken(StreamNumber stream, const std::string& why) noexcept = 0;
};

// The name of the one call there is. To be raised with every change of a message: processes of
// different versions do not understand each other, and find out before the first word.
inline constexpr char kControlMethod[] = "/evermoe.Control.7/Attach";

// Envelopes that wait in one stream for an other end that does not read.
inline constexpr size_t kOutboxMax = 1 << 16;

}  // namespace evermoe
