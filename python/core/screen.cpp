// Screen: open, look at, write, split.
#include "lacuna/screen/screen.h"

#include "core.h"
#include "lacuna/core/error.h"
#include "lacuna/screen/candidates.h"
#include "lacuna/screen/generate_screen.h"
#include "lacuna/screen/splits/split.h"
#include "lacuna/screen/splits/split_notes.h"
#include "lacuna/screen/summary.h"

namespace lacuna::python {
namespace {

using Values = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

Screen open_screen(const fs::path& path, bool check, const nb::object& progress) {
  if (!check) return Screen::open_unchecked(path);
  std::optional<Screen> screen;
  run_long(progress, [&](Progress& p) { screen = Screen::open(path, p); });
  return std::move(*screen);
}

nb::list columns_of(const Screen& screen) {  // [(name, values, categories)]
  nb::list all;
  for (const Column& column : screen.samples().columns)
    all.append(nb::make_tuple(column.name, numpy_view(column.values), column.categories));
  return all;
}

nb::list node_types_of(const HeteroGraph& graph) {  // [(name, names, [(feature, values)])]
  nb::list all;
  for (const NodeType& type : graph.node_types()) {
    nb::list features;
    for (const NodeFeature& feature : type.features)
      features.append(nb::make_tuple(feature.name, numpy_view(feature.values)));
    std::vector<std::string> names(type.size());
    for (uint32_t i = 0; i < type.size(); ++i) names[i] = type.names[i];
    all.append(nb::make_tuple(type.name, names, features));
  }
  return all;
}

nb::list edge_types_of(const HeteroGraph& graph) {  // [(source, name, target, edges, [values])]
  nb::list all;
  for (const EdgeType& type : graph.edge_types()) {
    nb::list values;
    for (const EdgeValue& value : type.values)
      values.append(nb::make_tuple(value.name, numpy_view(value.values)));
    all.append(nb::make_tuple(type.source, type.name, type.target, numpy_view(type.edges), values));
  }
  return all;
}

nb::list splits_of(const Screen& screen) {  // [(name, parts, how)]
  nb::list all;
  for (const Split& split : screen.splits())
    all.append(nb::make_tuple(split.name, numpy_view(split.parts), to_python(split.how)));
  return all;
}

// What a new screen is made of, one call a piece; write() ends it.
class ScreenWriter {
 public:
  void add_nodes(const std::string& type, const std::vector<std::string>& names) {
    graph_.add_nodes(type, Names(names));
  }
  void add_feature(const std::string& type, const std::string& name, const Values& values) {
    graph_.add_feature(type, name, copy_of(values, name.c_str()));
  }
  // edges [2, E] u32; values: [(name, [E] f32)]
  void add_edges(const std::string& source, const std::string& name, const std::string& target,
                 const Values& edges, const std::vector<std::pair<std::string, Values>>& values) {
    std::vector<EdgeValue> kept;
    for (const auto& [value, numbers] : values)
      kept.push_back({value, copy_of(numbers, value.c_str())});
    graph_.add_edges(source, name, target, copy_of(edges, name.c_str()), std::move(kept));
  }
  // removed [ptr[S]] u32, ptr [S + 1] u64, labels [S, L] f32
  void set_samples(const Values& removed, const Values& ptr, const Values& labels,
                   const std::vector<std::string>& label_names) {
    SampleBuilder builder(graph_.genes().size(), label_names);
    const Array genes = copy_of(removed, "removed"), places = copy_of(ptr, "ptr"),
                numbers = copy_of(labels, "labels");
    const auto all = genes.as<uint32_t>();
    const auto starts = places.as<uint64_t>();
    const auto values = numbers.as<float>();
    const uint64_t width = label_names.size();
    for (uint64_t s = 0; s + 1 < starts.size(); ++s)
      builder.add(all.subspan(starts[s], starts[s + 1] - starts[s]),
                  values.subspan(s * width, width));
    samples_ = builder.finish();
  }
  void add_column(const std::string& name, const Values& values) {
    samples_.columns.push_back({name, copy_of(values, name.c_str()), {}});
  }
  void add_categories(const std::string& name, const Values& codes,
                      const std::vector<std::string>& categories) {
    const Array copy = copy_of(codes, name.c_str());
    samples_.columns.push_back(make_category_column(name, copy.as<uint32_t>(), categories));
  }
  void add_split(const std::string& name, const Values& parts, const nb::object& how) {
    splits_.push_back({name, copy_of(parts, name.c_str()), from_python(how)});
  }
  void write(const fs::path& path, const nb::object& made_by, const nb::object& progress) {
    const ScreenContents contents = {graph_, samples_, splits_, from_python(made_by)};
    run_long(progress, [&](Progress& p) { write_screen(path, contents, p); });
  }

 private:
  HeteroGraph graph_;
  Samples samples_;
  std::vector<Split> splits_;
};

// Gives what is to be said of the split.
std::vector<std::string> make_split(const fs::path& path, const std::string& name,
                                    const std::string& by, const std::array<double, 3>& fractions,
                                    uint64_t seed, const std::string& column, uint32_t bins,
                                    bool repeats_together, const std::vector<std::string>& hold_out,
                                    const nb::object& progress) {
  const DrawOptions options = {.by = split_by_from_name(by),
                               .fractions = fractions,
                               .seed = seed,
                               .column = column,
                               .bins = bins,
                               .repeats_together = repeats_together,
                               .hold_out = hold_out};
  std::vector<std::string> notes;
  run_long(progress, [&](Progress& p) {
    const Split split = draw_split(Screen::open(path, p), name, options, p);
    add_split(path, split);
    notes = split_notes(split);
  });
  return notes;
}

}  // namespace

void bind_screen(nb::module_& module) {
  nb::class_<Screen>(module, "Screen")
      .def_static("open", &open_screen, nb::arg("path"), nb::arg("check"),
                  nb::arg("progress").none())
      .def_prop_ro("path", [](const Screen& s) { return s.path(); })
      .def_prop_ro("fingerprint", [](const Screen& s) { return s.fingerprint().value(); })
      .def_prop_ro("size", [](const Screen& s) { return s.samples().size(); })
      .def_prop_ro("removed", [](const Screen& s) { return numpy_view(s.samples().removed); })
      .def_prop_ro("ptr", [](const Screen& s) { return numpy_view(s.samples().ptr); })
      .def_prop_ro("labels", [](const Screen& s) { return numpy_view(s.samples().labels); })
      .def_prop_ro("label_names", [](const Screen& s) { return s.samples().label_names; })
      .def_prop_ro("columns", &columns_of)
      .def_prop_ro("node_types", [](const Screen& s) { return node_types_of(s.graph()); })
      .def_prop_ro("gene_aliases",
                   [](const Screen& s) {
                     const Names& genes = s.graph().genes().names;
                     std::vector<std::vector<std::string>> all;
                     for (uint32_t i = 0; i < genes.size(); ++i) all.push_back(genes.aliases(i));
                     return all;
                   })
      .def("find_gene",
           [](const Screen& s, const std::string& name) {
             return find_gene(s.graph().genes().names, name, s.path().string());
           })
      .def("shown_gene",
           [](const Screen& s, uint32_t gene) {
             const Names& genes = s.graph().genes().names;
             if (gene >= genes.size())
               throw Error("there is no gene {}; the screen has {}", gene, genes.size());
             return genes.shown(gene);
           })
      .def_prop_ro("edge_types", [](const Screen& s) { return edge_types_of(s.graph()); })
      .def_prop_ro("splits", &splits_of)
      .def(
          "summary",
          [](const Screen& s, const nb::object& progress) {
            Json json;
            run_long(progress, [&](Progress& p) { json = to_json(summarise(s, p), s); });
            return to_python(json);
          },
          nb::arg("progress").none());
  nb::class_<ScreenWriter>(module, "ScreenWriter")
      .def(nb::init<>())
      .def("add_nodes", &ScreenWriter::add_nodes)
      .def("add_feature", &ScreenWriter::add_feature)
      .def("add_edges", &ScreenWriter::add_edges)
      .def("set_samples", &ScreenWriter::set_samples)
      .def("add_column", &ScreenWriter::add_column)
      .def("add_categories", &ScreenWriter::add_categories)
      .def("add_split", &ScreenWriter::add_split)
      .def("write", &ScreenWriter::write, nb::arg("path"), nb::arg("made_by"),
           nb::arg("progress").none());
  module.def("make_split", &make_split, nb::arg("path"), nb::arg("name"), nb::arg("by"),
             nb::arg("fractions"), nb::arg("seed"), nb::arg("column"), nb::arg("bins"),
             nb::arg("repeats_together"), nb::arg("hold_out"), nb::arg("progress").none());
  module.def("remove_split",
             [](const fs::path& path, const std::string& name) { remove_split(path, name); });
}

}  // namespace lacuna::python
