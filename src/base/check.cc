#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/check_story.h"

namespace evermoe {
namespace {

std::atomic<CheckStory*> newest = nullptr;

}  // namespace

CheckStory::CheckStory(std::function<std::string()> tell)
    : tell_(std::move(tell)), before_(newest.exchange(this)) {}

CheckStory::~CheckStory() { newest = before_; }

std::string CheckStory::all() {
  std::string text;
  // Taken away first: what fails while it tells finds nothing to tell.
  for (const CheckStory* one = newest.exchange(nullptr); one != nullptr; one = one->before_)
    text += one->tell_() + "\n";
  return text;
}

namespace internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << file << ":" << line << ": CHECK failed: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  std::fprintf(stderr, "%s\n", stream_.str().c_str());
  std::fprintf(stderr, "%s", CheckStory::all().c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal
}  // namespace evermoe
