#include "cli/commands/machine_rates.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "env/clock.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr int kRounds = 5;
constexpr int64_t kBlockBytes = 4 << 20;

double seconds_of(const std::function<void()>& work) {
  const absl::Duration began = real_clock().now();
  work();
  return std::max(1e-9, absl::ToDoubleSeconds(real_clock().now() - began));
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// The first copy touches the pages and does not count.
double copy_seconds(int64_t bytes) {
  const std::vector<char> from(static_cast<size_t>(bytes), 1);
  std::vector<char> to(static_cast<size_t>(bytes));
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    seconds.push_back(seconds_of([&] { std::memcpy(to.data(), from.data(), from.size()); }));
    // The copy must be seen to be needed.
    if (to[static_cast<size_t>(round)] != 1) return 0;
  }
  return median(seconds);
}

absl::Status write_blocks(WritableFile& file, std::span<const std::byte> block, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += std::ssize(block))
    RETURN_IF_ERROR(file.write_at(at, block));
  return file.sync();
}

absl::Status read_blocks(ReadableFile& file, std::span<std::byte> block, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += std::ssize(block))
    RETURN_IF_ERROR(file.read_at(at, block));
  return absl::OkStatus();
}

absl::StatusOr<DiskRates> rates_of_file(const std::string& path, int64_t bytes) {
  bytes = std::max<int64_t>(1, bytes / kBlockBytes) * kBlockBytes;
  // Aligned, so that it can bypass the page cache.
  const std::unique_ptr<void, void (*)(void*)> memory(
      std::aligned_alloc(kDirectAlignment, kBlockBytes), std::free);
  std::memset(memory.get(), 0x5a, kBlockBytes);
  const std::span<std::byte> block(static_cast<std::byte*>(memory.get()), kBlockBytes);
  ASSIGN_OR_RETURN(const auto written,
                   real_files().create(path, {.direct = true, .reserve_bytes = bytes}));
  absl::Status status;
  const double write = seconds_of([&] { status = write_blocks(*written, block, bytes); });
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(written->close());
  ASSIGN_OR_RETURN(const auto readable, real_files().open(path));
  const double read = seconds_of([&] { status = read_blocks(*readable, block, bytes); });
  RETURN_IF_ERROR(status);
  const auto size = static_cast<double>(bytes);
  return DiskRates{size / write, size / read};
}

}  // namespace

double memory_copy_rate(int64_t bytes) { return static_cast<double>(bytes) / copy_seconds(bytes); }

double memory_traffic_rate(int processors, int64_t bytes) {
  std::vector<double> rates(static_cast<size_t>(processors));
  std::vector<std::thread> threads;
  for (double& rate : rates)
    threads.emplace_back([&rate, bytes] { rate = 2 * memory_copy_rate(bytes); });
  double total = 0;
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i].join();
    total += rates[i];
  }
  return total;
}

absl::StatusOr<DiskRates> disk_rates(const std::string& directory, int64_t bytes) {
  if (!real_files().is_directory(directory)) {
    return InvalidInput(
        absl::StrCat("--directory: found \"", directory, "\", allowed: an existing folder"));
  }
  const std::string path = join_path(
      directory,
      absl::StrCat("evermoe-profile-", absl::ToUnixNanos(real_clock().wall_now()), ".tmp"));
  absl::StatusOr<DiskRates> rates = rates_of_file(path, bytes);
  const absl::Status removed = remove_tree(real_files(), path);
  if (rates.ok() && !removed.ok()) return removed;
  return rates;
}

}  // namespace evermoe
