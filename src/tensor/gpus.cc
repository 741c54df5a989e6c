#include "tensor/gpus.h"

#include <dlfcn.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "tensor/torch.h"

namespace evermoe {
namespace {

// What is used of the driver's interface, which keeps its binary form. 0 is success everywhere.
constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
struct Uuid {
  std::array<unsigned char, 16> bytes;
};

class DriverLibrary {
 public:
  explicit DriverLibrary(const char* name) : library_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  ~DriverLibrary() = default;  // stays open, because its threads do

  // Calls a function with these arguments; false if it fails or does not exist.
  template <typename... Arguments>
  bool call(const char* function, Arguments... arguments) const {
    if (library_ == nullptr) return false;
    auto* const found = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, function));
    return found != nullptr && found(arguments...) == 0;
  }

 private:
  void* const library_;
};

std::string digits_of(const Uuid& uuid) {
  std::string digits;
  for (const unsigned char byte : uuid.bytes)
    absl::StrAppend(&digits, absl::Hex(byte, absl::kZeroPad2));
  return digits;
}

std::vector<Gpu> find_gpus() {
  const DriverLibrary driver("libcuda.so.1");
  int count = 0;
  if (!driver.call("cuInit", 0u) || !driver.call("cuDeviceGetCount", &count)) return {};
  std::vector<Gpu> found;
  for (int number = 0; number < count; ++number) {
    Gpu gpu;
    int device = 0;
    std::array<char, 128> name{};
    size_t bytes = 0;
    Uuid uuid{};
    const bool is_known =
        driver.call("cuDeviceGet", &device, number) &&
        driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size() - 1), device) &&
        driver.call("cuDeviceGetUuid", &uuid, device) &&
        driver.call("cuDeviceGetAttribute", &gpu.multiprocessors, kMultiprocessorCount, device) &&
        driver.call("cuDeviceTotalMem_v2", &bytes, device);
    if (!is_known) return {};
    gpu.name = name.data();
    gpu.identity = digits_of(uuid);
    gpu.memory_bytes = static_cast<int64_t>(bytes);
    found.push_back(std::move(gpu));
  }
  return found;
}

}  // namespace

const std::vector<Gpu>& gpus() {
  static const auto& found = *new std::vector<Gpu>(find_gpus());
  return found;
}

bool torch_has_cuda() { return at::hasCUDA(); }

std::string gpu_driver_version() {
  const DriverLibrary management("libnvidia-ml.so.1");
  std::array<char, 96> version{};
  if (!management.call("nvmlInit_v2")) return "";
  const bool is_known = management.call("nvmlSystemGetDriverVersion", version.data(),
                                        static_cast<unsigned>(version.size() - 1));
  (void)management.call("nvmlShutdown");
  return is_known ? version.data() : "";
}

}  // namespace evermoe
