// lacuna._core: the objects of the library in Python. Each file here binds those of its name; the
// package lacuna gives them their Python form.
#include "core.h"
#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/stop_host.h"

namespace lacuna::python {

// Error is lacuna.Error and UsageError one that is a ValueError too; a stop is KeyboardInterrupt.
void bind_errors(nb::module_& module) {
  nb::exception<Error> error(module, "Error", PyExc_RuntimeError);
  error.attr("__module__") = "lacuna";
  error.attr("__doc__") =
      "What goes wrong in Lacuna: one line that names the culprit and says what to do.";
  const nb::object bases = nb::make_tuple(error, nb::handle(PyExc_ValueError));
  static PyObject* usage = PyErr_NewExceptionWithDoc(
      "lacuna.UsageError", "A call that cannot mean anything: an Error that is a ValueError, too.",
      bases.ptr(), nullptr);
  module.attr("UsageError") = nb::handle(usage);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const UsageError& e) {
      PyErr_SetString(usage, e.what());
    } catch (const Stopped&) {
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
}

}  // namespace lacuna::python

namespace {

// Whether Python has noted Ctrl-C; the exception is then set.
bool has_ctrl_c() {
  const nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

}  // namespace

NB_MODULE(_core, module) {
  lacuna::set_stop_question(&has_ctrl_c);
  module.doc() = "The library's own objects; use them through the package lacuna.";
  module.def("ask_to_stop", &lacuna::ask_to_stop);
  module.def("take_back_stop", &lacuna::take_back_stop);
  lacuna::python::bind_errors(module);
  lacuna::python::bind_checkpoint(module);
  lacuna::python::bind_recording(module);
  lacuna::python::bind_recording_loader(module);
  lacuna::python::bind_run(module);
  lacuna::python::bind_screen(module);
  lacuna::python::bind_screen_loader(module);
}
