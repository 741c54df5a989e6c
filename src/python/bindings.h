// The planner for Python: each function adds one part's functions to the extension module
// `_evermoe`.
//
// Lists of numbers in, lists of numbers out; numpy, defaults and documentation are in
// python/evermoe/. Errors leave as StatusError: module.cc makes ValueError of InvalidInput and
// RuntimeError of everything else. Whatever the planner REQUIRES is checked here first, because a
// CHECK would take the interpreter down.
#pragma once

#include <pybind11/pybind11.h>

namespace evermoe {

void bind_placement(pybind11::module_& module);
void bind_checkpoint(pybind11::module_& module);
void bind_lossy(pybind11::module_& module);
void bind_interval(pybind11::module_& module);
void bind_forecast(pybind11::module_& module);

}  // namespace evermoe
