// What the files of lacuna._core share: arrays that cross without a copy, and calls that may take
// long.
//
// Every class of the module is bound in the file of its name; module.cpp lists them. The module
// knows nothing of torch: arrays cross as NumPy's, or as DLPack where a batch becomes tensors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <string>

#include "lacuna/core/array.h"
#include "lacuna/core/system/progress.h"
#include "lacuna/store/directory.h"

namespace nb = nanobind;

namespace lacuna::python {

// bf16 is u16 to Python: NumPy has no name for it.
nb::dlpack::dtype dlpack_of(DType dtype);
// Read-only NumPy array over the bytes of an array, which it keeps alive.
nb::object numpy_view(const Array& array);
// A copy of a NumPy array in memory of its own, as an Array of the same shape. Throws Error that
// names `what` for a dtype that is none of ours, and for an array that is not contiguous.
Array copy_of(const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& values, const char* what);

// json.loads() of it.
nb::object to_python(const Json& json);
Json from_python(const nb::handle& object);  // json.dumps()

// Runs `work` on a thread of its own without the GIL, while this one looks for Ctrl-C ten times a
// second and tells `progress` (an object of lacuna._progress, or None) how far it has come. What
// work throws is thrown here. Ctrl-C asks the library to stop, waits until it has, and raises
// KeyboardInterrupt.
void run_long(const nb::object& progress, const std::function<void(Progress&)>& work);

void bind_checkpoint(nb::module_& module);
void bind_errors(nb::module_& module);
void bind_recording(nb::module_& module);
void bind_recording_loader(nb::module_& module);
void bind_run(nb::module_& module);
void bind_screen(nb::module_& module);
void bind_screen_loader(nb::module_& module);

}  // namespace lacuna::python
