// For tests of streams: what has happened at one end, in order.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "control/wire/control_stream.h"
#include "control/wire/mailbox.h"

namespace evermoe {

struct StreamEvent {
  StreamNumber stream;
  std::optional<Envelope> envelope;  // nullopt: broken
  std::string why;
};

class RecordedEvents final : public StreamEvents {
 public:
  void on_envelope(StreamNumber stream, Envelope envelope) noexcept override {
    box_.put({stream, std::move(envelope), ""});
  }
  void on_broken(StreamNumber stream, const std::string& why) noexcept override {
    box_.put({stream, std::nullopt, why});
  }

  // The next event; fails the test after a while without one.
  StreamEvent next() {
    while (happened_.empty()) {
      if (!was_told_within(20'000)) {
        ADD_FAILURE() << "nothing happens";
        return {};
      }
    }
    StreamEvent first = std::move(happened_.front());
    happened_.pop_front();
    return first;
  }
  std::string next_text() {
    const StreamEvent one = next();
    return one.envelope ? std::get<JobEvent>(one.envelope->message).text : "broken: " + one.why;
  }
  bool is_any_within(int milliseconds) {
    if (happened_.empty()) was_told_within(milliseconds);
    return !happened_.empty();
  }

 private:
  // What it was told of may have been taken already.
  bool was_told_within(int milliseconds) {
    pollfd waiting{box_.fd(), POLLIN, 0};
    if (::poll(&waiting, 1, milliseconds) != 1) return false;
    for (StreamEvent& one : box_.take()) happened_.push_back(std::move(one));
    return true;
  }

  Mailbox<StreamEvent> box_{1 << 20};
  std::deque<StreamEvent> happened_;
};

}  // namespace evermoe
