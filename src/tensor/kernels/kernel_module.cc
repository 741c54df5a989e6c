#include "tensor/kernels/kernel_module.h"

#include <dlfcn.h>

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace evermoe {
namespace {

// The interfaces of NVRTC and of the driver, which keep their binary form. 0 is success everywhere.
constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*

// PyTorch's own way to both: its library names them.
void* library() {
  static void* const opened = ::dlopen("libcaffe2_nvrtc.so", RTLD_NOW | RTLD_LOCAL);
  return opened;
}

template <typename... Arguments>
int call(const char* function, Arguments... arguments) {
  TORCH_CHECK(library() != nullptr, "the kernels' compiler is not there: libcaffe2_nvrtc.so");
  auto* const found = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library(), function));
  TORCH_CHECK(found != nullptr, "the kernels' compiler and driver have no ", function);
  return found(arguments...);
}

template <typename... Arguments>
void call_or_throw(const char* function, Arguments... arguments) {
  const int error = call(function, arguments...);
  TORCH_CHECK(error == 0, function, " failed with error ", error);
}

// "sm_90"
std::string architecture_of(at::Device device) {
  int number = 0, major = 0, minor = 0;
  call_or_throw("cuDeviceGet", &number, static_cast<int>(device.index()));
  call_or_throw("cuDeviceGetAttribute", &major, kMajor, number);
  call_or_throw("cuDeviceGetAttribute", &minor, kMinor, number);
  return absl::StrCat("sm_", major, minor);
}

std::string log_of(void* program) {
  size_t size = 0;
  if (call("nvrtcGetProgramLogSize", program, &size) != 0) return {};
  std::string log(size, '\0');
  call("nvrtcGetProgramLog", program, log.data());
  return log;
}

std::vector<char> compiled(const char* source, const std::string& architecture) {
  void* program = nullptr;
  call_or_throw("nvrtcCreateProgram", &program, source, "fused_kernels.cu", 0,
                static_cast<const char* const*>(nullptr), static_cast<const char* const*>(nullptr));
  const std::string target = absl::StrCat("--gpu-architecture=", architecture);
  const char* const options[] = {target.c_str(), "--std=c++17"};
  const int error =
      call("nvrtcCompileProgram", program, 2, static_cast<const char* const*>(options));
  TORCH_CHECK(error == 0, "kernels do not compile for ", architecture, ": ", log_of(program));
  size_t size = 0;
  call_or_throw("nvrtcGetCUBINSize", program, &size);
  std::vector<char> binary(size);
  call_or_throw("nvrtcGetCUBIN", program, binary.data());
  call("nvrtcDestroyProgram", &program);
  return binary;
}

void* function_of(void* module, const char* kernel) {
  static Mutex mutex;
  static auto& known = *new std::map<std::pair<void*, std::string>, void*>();
  const MutexLock lock(mutex);
  void*& function = known[{module, kernel}];
  if (function == nullptr) call_or_throw("cuModuleGetFunction", &function, module, kernel);
  return function;
}

}  // namespace

KernelModule::KernelModule(const char* source, at::Device device) {
  const std::vector<char> binary = compiled(source, architecture_of(device));
  call_or_throw("cuModuleLoadData", &module_, static_cast<const void*>(binary.data()));
}

void KernelModule::launch(const char* kernel, Grid grid, std::span<void*> arguments) const {
  if (grid.blocks == 0) return;
  static const auto start =
      reinterpret_cast<int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, void*, void**, void**)>(
          ::dlsym(library(), "cuLaunchKernel"));
  const int error = start(function_of(module_, kernel), static_cast<unsigned>(grid.blocks), 1, 1,
                          static_cast<unsigned>(grid.threads), 1, 1, /*shared_bytes=*/0,
                          /*stream=*/nullptr, arguments.data(), /*extra=*/nullptr);
  TORCH_CHECK(error == 0, "the kernel ", kernel, " did not start: error ", error);
}

std::string kernel_compiler_version() {
  int major = 0, minor = 0;
  if (library() == nullptr || call("nvrtcVersion", &major, &minor) != 0) return {};
  return absl::StrCat(major, ".", minor);
}

}  // namespace evermoe
