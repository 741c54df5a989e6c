// One operator's live state on one rank: compute weights and gradients in full, master weights and
// moments for the shard that this rank owns (ZeRO-1 over the operator's owners).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/precision.h"
#include "model/operator.h"
#include "tensor/torch.h"
#include "train/layers/deferred_gradients.h"
#include "train/state/stored_elements.h"

namespace evermoe {

// A parameter as the layers see it: views into the operator's flat compute weights and gradients.
struct Parameter {
  at::Tensor value;        // in the type of activations, shape of the spec
  at::Tensor gradient;     // accumulator, same shape; backward functions add to it
  bool is_frozen = false;  // backward functions leave the gradient out, and the work for it
  OperatorDeferral* deferred =
      nullptr;  // where gradients of matrices wait to be computed; null: they do not
  bool has_fp8_products = false;  // the other factors of its products are rounded to FP8, too
};

struct StateTypes {
  TrainTypes stored;
  at::Device device = at::kCPU;

  at::ScalarType activations() const { return storage_type(stored.activations); }
  at::ScalarType sums() const { return storage_type(stored.sums); }
  // Whether the products of a layer's experts are one grouped product. CPUs have no kernel for it.
  bool groups_experts() const { return !device.is_cpu() && stored.compute == ElementType::kBf16; }
};

// Storage of spec.flat_size zeros each that becomes an operator's compute weights and gradients, so
// that those of several operators can lie side by side.
struct OperatorStorage {
  at::Tensor compute;
  at::Tensor gradient;
};

class OperatorState {
 public:
  // `owners` is the group of lanes that hold this operator (the whole stage group, or the lanes of
  // an expert's replicas), which lives as long as it is the state's. All tensors start as zero.
  // `storage`: undefined tensors are made here.
  OperatorState(OperatorSpec spec, Communicator& owners, StateTypes types,
                OperatorStorage storage = {});

  const OperatorSpec& spec() const { return spec_; }
  Communicator& owners() const { return *owners_; }
  // The same ranks in another group.
  void set_owners(Communicator& owners);
  FlatRange shard() const { return shard_; }
  // The shard of an owner, by its index among them.
  FlatRange shard_of(int owner) const {
    return shard_range(spec_.flat_size, owners_->size(), owner);
  }
  FlatRange whole() const { return {0, spec_.flat_size}; }
  // What this rank owns of a range of the flat layout, counted from the beginning of its shard.
  FlatRange in_shard(FlatRange range) const;
  // CHECKs that the operator has a parameter of this name.
  const Parameter& parameter(const std::string& name) const;
  bool has_parameter(const std::string& name) const;

  // This rank's shard: 1-D storage of shard().size() parameters (stored_elements.h). Where both
  // types are the same, the master is the shard of the compute weights itself.
  at::Tensor& master() { return master_; }
  at::Tensor& exp_avg() { return exp_avg_; }
  at::Tensor& exp_avg_sq() { return exp_avg_sq_; }
  at::Tensor shard_gradient() const { return stored_range(gradient_, shard_); }
  at::Tensor shard_compute() const { return stored_range(compute_, shard_); }
  // Storage. What layers read are views of it, or, where it is FP8, of a copy in the type of
  // activations.
  const at::Tensor& compute() const { return compute_; }
  const at::Tensor& gradient() const { return gradient_; }

  // What an update changes: ranges of the flat layout, ascending, cut at multiples of
  // kFlatAlignment; all of it at first. Gradients are those of the whole operator as soon as there
  // is one range. An operator without any is frozen: it computes, and passes gradients of its
  // inputs on, but gets none of its own.
  void set_active(std::vector<FlatRange> ranges);
  const std::vector<FlatRange>& active() const { return active_; }
  bool is_frozen() const { return active_.empty(); }

  // Master shard := initial weights; moments zero. Then cast_master() and, on all owners,
  // gather_compute().
  void initialise(uint64_t seed);
  // Only this rank's shard of master weights and moments is needed from now on: frees the rest.
  void keep_only_shard();
  // Gradients of matrices are put off there; it outlives the state. Once is enough.
  void defer_gradients(DeferredGradients& deferred);
  bool has_deferred_gradients() const { return deferral_ && !deferral_->is_empty(); }
  void compute_deferred_gradients() {
    if (deferral_) deferral_->run();
  }
  // This rank's shard of the compute weights := the master shard.
  void cast_master();
  // What layers read := compute(), which has changed.
  void show_compute();
  // Brings every owner's shard of the compute weights to all of them, and shows them.
  absl::Status gather_compute();

 private:
  std::vector<int64_t> shard_begins() const;

  const OperatorSpec spec_;
  Communicator* owners_;
  const FlatRange shard_;
  at::Tensor compute_;
  at::Tensor values_;  // the same in the type of activations
  at::Tensor gradient_;
  at::Tensor master_;
  at::Tensor exp_avg_;
  at::Tensor exp_avg_sq_;
  std::vector<Parameter> parameters_;  // in the spec's order
  std::vector<FlatRange> active_;
  std::unique_ptr<OperatorDeferral> deferral_;
};

// Of one rank, by name.
using OperatorStates = std::map<std::string, std::unique_ptr<OperatorState>>;

// A range of an operator's flat layout.
struct OperatorRange {
  OperatorState* state;
  FlatRange range;
};

// OperatorState::cast_master() in these ranges alone.
void cast_masters(const std::vector<OperatorRange>& ranges);

}  // namespace evermoe
