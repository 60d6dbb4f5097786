// lacuna._core.Run: what a run directory holds, read and checked by the reader of the report and of
// `lacuna info`.
#include <nanobind/stl/map.h>

#include "core.h"
#include "lacuna/core/error.h"
#include "lacuna/run/run_contents.h"

namespace lacuna::python {
namespace {

RunContents open_run(const fs::path& path) {
  RunContents run = inspect_run(path);
  if (!run.damaged.empty()) throw Error("{}", damage_words(run));
  return run;
}

// [{epoch, step, train_loss, seconds, validation: {label or session: {metric: number}}}]
nb::object epochs_of(const RunContents& run) {
  Json lines = Json::array();
  for (const EpochLine& line : run.epochs) {
    lines.push_back(to_json(line));
    for (const LabelMetrics& of : line.validation) lines.back()["validation"][of.label] = of.scores;
  }
  return to_python(lines);
}

}  // namespace

void bind_run(nb::module_& module) {
  nb::class_<RunContents>(module, "Run")
      .def_static("open", &open_run, nb::arg("path"))
      .def_ro("config", &RunContents::config)
      .def_ro("settings", &RunContents::settings)
      .def_prop_ro("epochs", &epochs_of);
}

}  // namespace lacuna::python
