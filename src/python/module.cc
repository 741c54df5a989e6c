#include <pybind11/pybind11.h>

#include <exception>
#include <string>

#include "base/error.h"
#include "python/bindings.h"

namespace {

void translate_status(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const evermoe::StatusError& e) {
    PyObject* type = absl::IsInvalidArgument(e.status) ? PyExc_ValueError : PyExc_RuntimeError;
    PyErr_SetString(type, std::string(e.status.message()).c_str());
  }
}

}  // namespace

PYBIND11_MODULE(_evermoe, module) {
  module.doc() =
      "The planner's C++ functions; use evermoe.placement, evermoe.checkpoint and "
      "evermoe.forecast.";
  pybind11::register_exception_translator(&translate_status);
  evermoe::bind_placement(module);
  evermoe::bind_checkpoint(module);
  evermoe::bind_lossy(module);
  evermoe::bind_interval(module);
  evermoe::bind_forecast(module);
}
