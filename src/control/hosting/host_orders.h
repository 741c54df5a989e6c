// What others in its process want of the host of a job.
#pragma once

#include <deque>
#include <string>
#include <utility>

#include "control/wire/mailbox.h"

namespace evermoe {

// Any thread, but take(): the host's.
class HostOrders {
 public:
  HostOrders() : wishes_(kWishesMax) {}
  // It ends at once, which is a failure.
  void quit(std::string why) { wishes_.put({false, std::move(why)}); }
  // It ends at once and leaves the job to the next host.
  void resign(std::string why) { wishes_.put({true, std::move(why)}); }

  struct Wish {
    bool resigns = false;
    std::string why;
  };
  int fd() const { return wishes_.fd(); }
  std::deque<Wish> take() { return wishes_.take(); }

 private:
  static constexpr size_t kWishesMax = 64;
  Mailbox<Wish> wishes_;
};

}  // namespace evermoe
