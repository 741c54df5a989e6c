#include "tensor/fake_device_testing.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace evermoe {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr size_t kMemoryBytes = size_t{8} << 30,
                 kAlignment = 64;      // of addresses; pages come when used
constexpr c10::StreamId kStreams = 8;  // 0: the default one

// ---- memory: the same pages twice. What tensors point to is forbidden to the host.

class Memory {
 public:
  Memory() {
    const int file = ::memfd_create("fake-device", MFD_CLOEXEC);
    CHECK(file >= 0 && ::ftruncate(file, static_cast<off_t>(kMemoryBytes)) == 0);
    device_ = map(file, PROT_NONE);
    host_ = map(file, PROT_READ | PROT_WRITE);
    ::close(file);
    free_[0] = kMemoryBytes;
  }

  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t size = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    const auto room =
        std::ranges::find_if(free_, [&](const auto& gap) { return gap.second >= size; });
    CHECK(room != free_.end()) << "the fake device has no room for " << bytes << " bytes";
    const auto [begin, length] = *room;
    free_.erase(room);
    if (length > size) free_[begin + size] = length - size;
    taken_[begin] = size;
    return device_ + begin;
  }
  void give_back(void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto taken = taken_.find(static_cast<size_t>(static_cast<std::byte*>(pointer) - device_));
    CHECK(taken != taken_.end());
    auto gap = free_.insert({taken->first, taken->second}).first;
    taken_.erase(taken);
    if (const auto next = std::next(gap);
        next != free_.end() && gap->first + gap->second == next->first) {
      gap->second += next->second;
      free_.erase(next);
    }
    if (gap == free_.begin()) return;
    if (const auto before = std::prev(gap); before->first + before->second == gap->first) {
      before->second += gap->second;
      free_.erase(gap);
    }
  }
  // Where kernels find it.
  void* of_kernels(const void* pointer) const {
    return pointer == nullptr ? nullptr
                              : host_ + (static_cast<const std::byte*>(pointer) - device_);
  }

 private:
  static std::byte* map(int file, int protection) {
    void* const memory =
        ::mmap(nullptr, kMemoryBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    CHECK(memory != MAP_FAILED);
    return static_cast<std::byte*>(memory);
  }

  std::mutex mutex_;
  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
  std::map<size_t, size_t> free_, taken_;  // begin to length
};

Memory& memory() {
  static auto& one = *new Memory;
  return one;
}

class FakeAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const pointer = bytes == 0 ? nullptr : memory().take(bytes);
    return {pointer, pointer, raw_deleter(), c10::Device(kType, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* pointer) {
      if (pointer != nullptr) memory().give_back(pointer);
    };
  }
  void copy_data(void* into, const void* from, size_t bytes) const override {
    std::memcpy(memory().of_kernels(into), memory().of_kernels(from), bytes);
  }
};

// ---- streams

class Streams {
 public:
  void start(c10::StreamId stream, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_[stream].push_back(std::move(work));
    ++started_[stream];
  }
  // Runs what a stream was given up to its `number`-th operation.
  void run(c10::StreamId stream, int64_t number) {
    const std::lock_guard lock(mutex_);
    while (done_[stream] < number) {
      const std::function<void()> work = std::move(waiting_[stream].front());
      waiting_[stream].pop_front();
      ++done_[stream];
      work();
    }
  }
  void run_all(c10::StreamId stream) { run(stream, started(stream)); }
  int64_t started(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return started_[stream];
  }
  int64_t done(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return done_[stream];
  }
  std::recursive_mutex& mutex() { return mutex_; }

 private:
  std::recursive_mutex mutex_;  // what runs may wait for another stream's work
  std::deque<std::function<void()>> waiting_[kStreams];
  int64_t started_[kStreams] = {}, done_[kStreams] = {};
};

Streams& streams() {
  static auto& all = *new Streams;
  return all;
}

thread_local c10::StreamId current_stream = 0;

struct FakeEvent {
  c10::StreamId stream = 0;
  int64_t number = 0;
};

struct FakeHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
};

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kType;
  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, 0), id);
  }
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return {kType, 0}; }
  c10::Device getDevice() const override { return {kType, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return stream(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    static std::atomic<int> next{0};
    return stream(1 + next++ % (kStreams - 1));
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream(std::exchange(current_stream, to.id()));
  }
  void record(void** event, const c10::Stream& on, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new FakeEvent;
    *static_cast<FakeEvent*>(*event) = {on.id(), streams().started(on.id())};
  }
  void block(void* event, const c10::Stream& until) const override {
    const FakeEvent recorded = *static_cast<FakeEvent*>(event);
    streams().start(until.id(), [=] { streams().run(recorded.stream, recorded.number); });
  }
  bool queryEvent(void* event) const override {
    const auto* const recorded = static_cast<FakeEvent*>(event);
    return recorded == nullptr || streams().done(recorded->stream) >= recorded->number;
  }
  void synchronizeEvent(void* event) const override {
    const auto* const recorded = static_cast<FakeEvent*>(event);
    streams().run(recorded->stream, recorded->number);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<FakeEvent*>(event);
  }
  bool queryStream(const c10::Stream& on) const override {
    return streams().done(on.id()) == streams().started(on.id());
  }
  void synchronizeStream(const c10::Stream& on) const override { streams().run_all(on.id()); }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    for (c10::StreamId id = 0; id < kStreams; ++id) streams().run_all(id);
  }
};

// ---- kernels

bool is_ours(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType;
}

// What a kernel sees of it: the same memory, as the host may use it.
at::Tensor of_kernels(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  const auto options = at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU);
  void* const pointer = memory().of_kernels(tensor.unsafeGetTensorImpl()->storage().data());
  if (pointer == nullptr) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  auto* const begin = static_cast<std::byte*>(pointer) +
                      tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
  return at::from_blob(begin, tensor.sizes(), tensor.strides(), options);
}

at::Tensor on_device(const at::Tensor& made) {
  at::Tensor result = at::detail::empty_strided_generic(
      made.sizes(), made.strides(), c10::GetAllocator(kType),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), made.scalar_type());
  of_kernels(result).copy_(made);
  return result;
}

c10::IValue of_kernels(const c10::IValue& value) {
  if (value.isTensor()) return of_kernels(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> all;
    for (const at::Tensor& tensor : value.toTensorVector()) all.push_back(of_kernels(tensor));
    return all;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      all.push_back(tensor ? std::optional(of_kernels(*tensor)) : std::nullopt);
    return all;
  }
  if (value.isDevice()) return c10::Device(at::kCPU);
  return value;
}

// Whether an operation makes nothing but changes of what it is given, which may come late. What
// gets its results as arguments may change their sizes, which the caller sees at once; unless they
// are what it reads.
bool may_be_late(const c10::FunctionSchema& schema, const torch::jit::Stack& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (!schema.arguments()[i].is_out()) continue;
    const bool is_read = std::any_of(
        given.begin(), given.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const c10::IValue& other) { return other.isTensor() && other.is(given[i]); });
    if (!is_read) return false;
  }
  return std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() != nullptr && result.alias_info()->isWrite();
  });
}

// Results that are given as arguments are new ones to the kernel.
void run_kernel(const c10::OperatorHandle& op, torch::jit::Stack& arguments) {
  c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  for (size_t i = 0; i < arguments.size(); ++i) {
    arguments[i] = op.schema().arguments()[i].is_out()
                       ? at::empty({0}, arguments[i].toTensor().options().device(at::kCPU))
                       : of_kernels(arguments[i]);
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &arguments);
}

// `into`, which was given as an argument, becomes what was made.
void take_result(const at::Tensor& made, const at::Tensor& into) {
  const at::NoGradGuard no_grad;
  if (into.sizes() == made.sizes()) {
    at::Tensor memory_of_it = of_kernels(into);
    if (memory_of_it.data_ptr() != made.data_ptr()) memory_of_it.copy_(made);
    return;
  }
  const at::Tensor other = on_device(made);
  c10::TensorImpl* const tensor = into.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(other.storage());
  tensor->set_sizes_and_strides(other.sizes(), other.strides(), 0);
}

// The argument that a result is, by the schema.
const c10::IValue& same_as(const c10::Argument& result, const c10::FunctionSchema& schema,
                           const torch::jit::Stack& given) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* const info = schema.arguments()[i].alias_info();
    if (info != nullptr && info->beforeSets() == result.alias_info()->beforeSets()) return given[i];
  }
  CHECK(false) << schema.name();
  __builtin_unreachable();
}

void kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const torch::jit::Stack given = torch::jit::pop(*stack, schema.arguments().size());
  const c10::StreamId stream = current_stream;
  const std::lock_guard lock(streams().mutex());
  if (may_be_late(schema, given)) {
    streams().run_all(stream);
    streams().start(stream, [op, given] {
      torch::jit::Stack results = given;
      run_kernel(op, results);
      for (size_t i = 0; i < results.size(); ++i) {
        const c10::IValue& into = same_as(op.schema().returns()[i], op.schema(), given);
        if (into.isTensor()) take_result(results[i].toTensor(), into.toTensor());
      }
    });
    for (const c10::Argument& result : schema.returns())
      stack->push_back(same_as(result, schema, given));
    return;
  }
  streams().run_all(stream);
  torch::jit::Stack results = given;
  run_kernel(op, results);
  for (size_t i = 0; i < results.size(); ++i) {
    const c10::Argument& result = schema.returns()[i];
    if (result.alias_info() != nullptr) {
      CHECK(result.alias_info()->isWrite()) << schema.name() << " makes a view";
      stack->push_back(same_as(result, schema, given));
      take_result(results[i].toTensor(), stack->back().toTensor());
    } else if (results[i].isTensor() && results[i].toTensor().defined()) {
      stack->push_back(on_device(results[i].toTensor()));
    } else if (results[i].isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor& tensor : results[i].toTensorVector()) all.push_back(on_device(tensor));
      stack->push_back(all);
    } else {
      stack->push_back(results[i]);
    }
  }
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& into, bool non_blocking) {
  const c10::StreamId stream = current_stream;
  const std::lock_guard lock(streams().mutex());
  streams().start(stream, [from, into] {
    const at::NoGradGuard no_grad;
    of_kernels(into).copy_(of_kernels(from));
  });
  const bool on_device_alone = is_ours(from) && is_ours(into);
  if (!non_blocking && !on_device_alone) streams().run_all(stream);
  return into;
}

at::Tensor empty_memory(at::IntArrayRef size, std::optional<at::ScalarType> type,
                        std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                        std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, c10::GetAllocator(kType),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

at::Tensor empty_strided_memory(at::IntArrayRef size, at::IntArrayRef stride,
                                std::optional<at::ScalarType> type, std::optional<at::Layout>,
                                std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(kType),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(type));
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::as_strided_tensorimpl(self, size, stride, self.storage_offset());
}

// As PyTorch computes it on the CPU.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                     std::optional<double> scale, bool /*enable_gqa*/) {
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout,
                                                                     is_causal, mask, scale));
}

void register_kernels() {
  static auto& kernels = *new torch::Library(torch::Library::IMPL, "aten",
                                             c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  kernels.impl("empty.memory_format", empty_memory);
  kernels.impl("empty_strided", empty_strided_memory);
  kernels.impl("as_strided", at::native::as_strided_tensorimpl);
  kernels.impl("view", at::native::view);
  kernels.impl("_reshape_alias", reshape_alias);
  kernels.impl("_copy_from", copy_from);
  // PyTorch would compute these of other operations, where it has kernels on the CPU.
  for (const char* const name : {"native_layer_norm", "silu_backward"})
    kernels.impl(name, torch::CppFunction::makeFromBoxedFunction<&kernel>());
  kernels.impl("scaled_dot_product_attention", attention);
  static auto& with_gradients = *new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  with_gradients.impl("scaled_dot_product_attention", attention);
  static auto& others = *new torch::Library(torch::Library::IMPL, "_",
                                            c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFromBoxedFunction<&kernel>());
}

}  // namespace

at::Device fake_device() {
  static const bool is_there = [] {
    static FakeAllocator allocator;
    static FakeGuard guard;
    c10::register_privateuse1_backend("fake");
    at::RegisterPrivateUse1HooksInterface(new FakeHooks);
    c10::SetAllocator(kType, &allocator);
    c10::impl::device_guard_impl_registry[static_cast<size_t>(kType)].store(&guard);
    register_kernels();
    return true;
  }();
  CHECK(is_there);
  return {kType, 0};
}

int64_t late_operations() {
  int64_t count = 0;
  for (c10::StreamId id = 0; id < kStreams; ++id)
    count += streams().started(id) - streams().done(id);
  return count;
}

}  // namespace evermoe
