#include "tensor/host_memory.h"

#include <gperftools/malloc_extension.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace evermoe {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;
// Mapped at once. Only what is touched counts.
constexpr size_t kGrowth = size_t{64} << 20;

size_t rounded_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Threads: tcmalloc calls it under its own lock.
class LargePages : public SysAllocator {
 public:
  explicit LargePages(SysAllocator* otherwise) : otherwise_(otherwise) {}

  void* Alloc(size_t size, size_t* actual_size, size_t alignment) override {
    const size_t bytes = rounded_up(size, kGrowth);
    void* const begin = map(bytes, std::max(alignment, kLargePage));
    if (begin == nullptr) return otherwise_->Alloc(size, actual_size, alignment);
    ::madvise(begin, bytes, MADV_HUGEPAGE);  // a wish
    if (actual_size != nullptr) *actual_size = bytes;
    return begin;
  }

 private:
  // nullptr: there is none.
  static void* map(size_t bytes, size_t alignment) {
    void* const all = ::mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    const auto from = reinterpret_cast<uintptr_t>(all);
    const size_t before = rounded_up(from, alignment) - from;
    char* const begin = static_cast<char*>(all) + before;
    if (before > 0) ::munmap(all, before);
    if (before < alignment) ::munmap(begin + bytes, alignment - before);
    return begin;
  }

  SysAllocator* const otherwise_;
};

}  // namespace

void keep_freed_memory() {
  MallocExtension* const allocator = MallocExtension::instance();
  allocator->SetMemoryReleaseRate(0);
  // It serves whoever frees in the last moment of the process.
  static auto* const large_pages = new LargePages(allocator->GetSystemAllocator());
  allocator->SetSystemAllocator(large_pages);
}

}  // namespace evermoe
