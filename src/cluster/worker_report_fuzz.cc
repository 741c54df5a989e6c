#include "cluster/worker_report_fuzz_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  evermoe::fuzz_worker_report(data, size);
  return 0;
}
