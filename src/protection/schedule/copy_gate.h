// Whether a chunk of a copy may go out beside the training's own messages: in their gaps, as Gemini
// sends its checkpoints (Wang et al., SOSP 2023, section 5). Gemini profiles the gaps of an
// iteration and cuts chunks to fit; here the transport says when messages are under way, so a gap
// is used as soon as it begins, and a chunk at a time, so that a message that follows waits for one
// chunk at most. Pure.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace evermoe {

struct CopyGateOptions {
  bool keeps_to_gaps = false;  // else chunks go out whenever there is one
  // No chunk is put off for longer, however busy the line is.
  absl::Duration put_off_max = absl::Milliseconds(50);
  int chunks_in_flight_max = 8;  // where chunks need not keep to gaps
};

class CopyGate {
 public:
  struct Line {
    absl::Duration now;
    int messages_under_way = 0;  // of the training, from here
    size_t chunks_in_flight = 0;
    bool is_urgent = false;  // a step waits for its copies
  };
  explicit CopyGate(const CopyGateOptions& options) : options_(options) {}

  // Whether the next chunk may go now. What is refused is put off; the gate remembers since when.
  bool may_send(const Line& line);
  // The next chunk has gone, or there is none any more.
  void on_sent() { put_off_since_.reset(); }

 private:
  const CopyGateOptions options_;
  std::optional<absl::Duration> put_off_since_;
};

}  // namespace evermoe
