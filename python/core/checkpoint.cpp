// Checkpoints of the program: read, checked and written by the library's own reader and writer.
#include <nanobind/stl/map.h>

#include "core.h"
#include "lacuna/core/error.h"
#include "lacuna/graph/shuffle_graph.h"
#include "lacuna/screen/screen.h"
#include "lacuna/store/safetensors.h"

namespace lacuna::python {
namespace {

using Values = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// ({name: array}, {key: text}); throws Error for a file that is none, or was changed.
nb::tuple read_sealed(const fs::path& path) {
  const Safetensors contents = read_safetensors(path);
  const Seal seal = seal_of(contents);
  if (seal == Seal::none)
    throw Error("{} is not a checkpoint of lacuna: it has no checksum", path.string());
  if (seal == Seal::broken)
    throw Error("{} is damaged: its bytes are not those that were written", path.string());
  nb::dict arrays;
  for (const auto& [name, array] : contents.arrays) arrays[name.c_str()] = numpy_view(array);
  return nb::make_tuple(arrays, contents.metadata);
}

void write_sealed(const fs::path& path, const std::map<std::string, Values>& arrays,
                  const std::map<std::string, std::string>& metadata) {
  Safetensors contents;
  for (const auto& [name, values] : arrays) contents.arrays[name] = copy_of(values, name.c_str());
  contents.metadata = metadata;
  add_checksum(contents);
  write_safetensors(path, contents);
}

nb::object parts_of(const HeteroGraph& graph) { return to_python(fingerprint_of(graph).to_json()); }

// The gene-gene edges of the control graph, [(name, [2, E])], and the fingerprint of all of it.
nb::tuple shuffled(const Screen& screen, uint64_t seed) {
  const HeteroGraph graph = shuffle_graph(screen.graph(), seed);
  nb::list edges;
  for (const EdgeType* type : graph.gene_edges())
    edges.append(nb::make_tuple(type->name, numpy_view(type->edges)));
  return nb::make_tuple(edges, parts_of(graph));
}

}  // namespace

void bind_checkpoint(nb::module_& module) {
  module.def("read_checkpoint", &read_sealed, nb::arg("path"));
  module.def("write_checkpoint", &write_sealed, nb::arg("path"), nb::arg("arrays"),
             nb::arg("metadata"));
  module.def("graph_fingerprint", [](const Screen& screen) { return parts_of(screen.graph()); });
  module.def("shuffled_graph", &shuffled, nb::arg("screen"), nb::arg("seed"));
}

}  // namespace lacuna::python
