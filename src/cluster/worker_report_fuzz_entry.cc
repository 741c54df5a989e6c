#include "cluster/worker_report_fuzz_entry.h"

#include <string>

#include "base/check.h"
#include "cluster/report_lines.h"
#include "cluster/worker_report.h"

namespace evermoe {

void fuzz_worker_report(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto report = decode_report(bytes); report.ok()) CHECK(encode(*report) == bytes);
  // The same bytes in one piece and byte by byte make the same reports.
  ReportLines whole;
  ReportLines pieces;
  whole.append(bytes);
  for (const char byte : bytes) pieces.append(std::string(1, byte));
  while (true) {
    const auto a = whole.next();
    const auto b = pieces.next();
    CHECK(a.ok() == b.ok());
    if (!a.ok()) return;
    CHECK(a->has_value() == b->has_value());
    if (!a->has_value()) return;
    CHECK(encode(**a) == encode(**b));
  }
}

}  // namespace evermoe
