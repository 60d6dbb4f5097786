#include "lacuna/screen/screen.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/text.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 3> kSampleFiles = {"removed", "ptr", "label"};

std::string nodes_file(const NodeType& nodes) { return "nodes/" + nodes.name + ".txt"; }
// Where they are kept first; adding more writes another file and drops this one.
std::string aliases_file(const std::string& type) { return "nodes/" + type + ".aliases.txt"; }
std::string feature_file(const std::string& nodes, const std::string& feature) {
  return "nodes/" + nodes + "." + feature + ".npy";
}
std::string edges_file(const std::string& key) { return "edges/" + key + ".npy"; }
std::string value_file(const std::string& key, const std::string& value) {
  return "edges/" + key + "." + value + ".npy";
}
std::string sample_file(const std::string& name) { return "samples/" + name + ".npy"; }
std::string split_file(const std::string& name) { return "splits/" + name + ".npy"; }

// A name that becomes part of a file name and of a message.
void check_name(std::string_view kind, const std::string& name) {
  const bool has_control =
      std::any_of(name.begin(), name.end(), [](char c) { return uint8_t(c) < 0x20 || c == 0x7f; });
  if (name.empty() || name.front() == '.' || name.size() > 200 || has_control ||
      name.find('/') != name.npos)
    throw Error("a {} cannot be named '{}': it names a file; use letters, digits, '-' and '_'",
                kind, name);
}

template <class Named>
void check_names(std::string_view kind, const std::vector<Named>& things) {
  std::set<std::string_view> seen;
  for (const auto& thing : things) {
    check_name(kind, thing.name);
    if (!seen.insert(thing.name).second)
      throw Error("two of kind {} are named '{}'; rename one", kind, thing.name);
  }
}

void check_names(const ScreenContents& contents) {
  check_names("column", contents.samples.columns);
  for (const auto& column : contents.samples.columns)
    if (std::find(kSampleFiles.begin(), kSampleFiles.end(), column.name) != kSampleFiles.end())
      throw Error("a column cannot be named '{}': the samples have a file of that name; rename it",
                  column.name);
  check_names("split", contents.splits);
  std::set<std::string_view> labels;
  for (const auto& label : contents.samples.label_names)
    if (label.empty() || !labels.insert(label).second)
      throw Error("label name '{}' is empty or there twice; name each label", label);
}

// ---- the manifest

bool has_aliases(const Names& names) { return names.alias_count() > 0; }

// A line a node: its aliases, tabs between them.
std::vector<std::string> alias_lines(const Names& names) {
  std::vector<std::string> lines;
  for (uint32_t i = 0; i < names.size(); ++i)
    lines.push_back(fmt::format("{}", fmt::join(names.aliases(i), "\t")));
  return lines;
}

void read_aliases(const Directory& directory, const std::string& file, Names& names) {
  const std::vector<std::string> lines = directory.lines(file);
  if (lines.size() != names.size())
    throw Error("{} has {} lines, but there are {} names", file, lines.size(), names.size());
  for (uint32_t i = 0; i < names.size(); ++i)
    for (size_t start = 0; start < lines[i].size();) {
      const size_t end = std::min(lines[i].find('\t', start), lines[i].size());
      names.add_alias(std::string_view(lines[i]).substr(start, end - start), i);
      start = end + 1;
    }
}

Json graph_to_json(const HeteroGraph& graph) {
  Json nodes = Json::array(), edges = Json::array();
  for (const auto& type : graph.node_types()) {
    Json features = Json::array();
    for (const auto& feature : type.features) features.push_back(feature.name);
    nodes.push_back({{"type", type.name}, {"count", type.size()}, {"features", features}});
    if (has_aliases(type.names)) nodes.back()["aliases"] = aliases_file(type.name);
  }
  for (const auto& type : graph.edge_types()) {
    Json values = Json::array();
    for (const auto& value : type.values) values.push_back(value.name);
    edges.push_back({{"source", type.source},
                     {"name", type.name},
                     {"target", type.target},
                     {"count", type.size()},
                     {"values", values}});
  }
  return {{"nodes", nodes}, {"edges", edges}};
}

Json samples_to_json(const Samples& samples) {
  Json columns = Json::array();
  for (const auto& column : samples.columns) {
    Json json = {{"name", column.name}};
    if (column.is_category()) json["categories"] = column.categories;
    columns.push_back(json);
  }
  return {{"count", samples.size()}, {"labels", samples.label_names}, {"columns", columns}};
}

HeteroGraph read_graph(const Directory& directory) {
  const Json& manifest = directory.manifest();
  HeteroGraph graph;
  for (const auto& json : manifest.at("nodes")) {
    const auto type = json.at("type").get<std::string>();
    Names names(directory.lines("nodes/" + type + ".txt"));
    if (json.contains("aliases"))
      read_aliases(directory, json.at("aliases").get<std::string>(), names);
    graph.add_nodes(type, std::move(names));
    if (graph.nodes(type).size() != json.at("count").get<uint64_t>())
      throw Error("nodes/{}.txt has {} names, but the manifest says {}", type,
                  graph.nodes(type).size(), json.at("count").get<uint64_t>());
    for (const auto& feature : json.at("features"))
      graph.add_feature(type, feature, directory.array(feature_file(type, feature)));
  }
  for (const auto& json : manifest.at("edges")) {
    const auto source = json.at("source").get<std::string>();
    const auto name = json.at("name").get<std::string>();
    const auto target = json.at("target").get<std::string>();
    const std::string key = source + "." + name + "." + target;
    std::vector<EdgeValue> values;
    for (const auto& value : json.at("values"))
      values.push_back({value, directory.array(value_file(key, value))});
    graph.add_edges(source, name, target, directory.array(edges_file(key)), std::move(values));
  }
  graph.genes();  // throws where there are no genes
  return graph;
}

Samples read_samples(const Directory& directory) {
  const Json& json = directory.manifest().at("samples");
  Samples samples;
  samples.removed = directory.array(sample_file("removed"));
  samples.ptr = directory.array(sample_file("ptr"));
  samples.labels = directory.array(sample_file("label"));
  samples.label_names = json.at("labels").get<std::vector<std::string>>();
  for (const auto& entry : json.at("columns")) {
    Column column;
    column.name = entry.at("name").get<std::string>();
    column.values = directory.array(sample_file(column.name));
    if (entry.contains("categories"))
      column.categories = entry.at("categories").get<std::vector<std::string>>();
    samples.columns.push_back(std::move(column));
  }
  check_layout(samples);
  return samples;
}

std::vector<Split> read_splits(const Directory& directory, uint64_t sample_count) {
  std::vector<Split> splits;
  for (const auto& json : directory.manifest().at("splits")) {
    const auto name = json.at("name").get<std::string>();
    splits.push_back({name, directory.array(split_file(name)), json.at("how")});
    check_layout(splits.back(), sample_count);
  }
  return splits;
}

// Adds the screen's path to errors of the layers below.
template <class F>
void with_path(const fs::path& path, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string_view words = error.what();
    if (words.starts_with(path.string())) throw;
    throw Error("{}: {}", path.string(), words);
  }
}

template <class Named>
const Named& find_named(const fs::path& path, std::string_view kind, std::string_view name,
                        const std::vector<Named>& things) {
  std::vector<std::string> names;
  for (const auto& thing : things) {
    if (thing.name == name) return thing;
    names.push_back(thing.name);
  }
  throw Error("{}: no {} '{}'; there is {}", path.string(), kind, name,
              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

// In u32, whatever type they are stored in.
uint64_t hash_indices(const Array& indices) {
  const std::vector<uint32_t> words = widen(indices);
  return hash64(std::as_bytes(std::span(words)));
}

// An array of numbers with its shape.
uint64_t hash_values(const Array& values) {
  Hasher hasher;
  hasher.add(fmt::format("[{}]", fmt::join(values.shape(), ", ")));
  hasher.add(values.bytes());
  return hasher.value();
}

Fingerprint joined(const Fingerprint& first, const Fingerprint& second) {
  Fingerprint all = first;
  for (const auto& part : second.parts()) all.add(part.name, part.hash);
  return all;
}

void check_contents(const ScreenContents& contents, Progress& progress) {
  check_names(contents);
  check_layout(contents.samples);
  check_values(contents.samples, contents.graph.genes().size(), progress);
  for (const auto& split : contents.splits) {
    check_layout(split, contents.samples.size());
    check_values(split);
  }
}

void write_graph(DirectoryWriter& writer, const HeteroGraph& graph) {
  for (const auto& type : graph.node_types()) {
    writer.add_lines(nodes_file(type), type.names.all());
    if (has_aliases(type.names)) writer.add_lines(aliases_file(type.name), alias_lines(type.names));
    for (const auto& feature : type.features)
      writer.add_array(feature_file(type.name, feature.name), feature.values);
  }
  for (const auto& type : graph.edge_types()) {
    writer.add_array(edges_file(type.key()), type.edges);
    for (const auto& value : type.values)
      writer.add_array(value_file(type.key(), value.name), value.values);
  }
}

void write_samples(DirectoryWriter& writer, const Samples& samples, Progress& progress) {
  const auto add = [&](const std::string& name, const Array& array) {
    writer.add_array(sample_file(name), array);
    progress.advance(writer.bytes());
  };
  add("removed", samples.removed);
  add("ptr", samples.ptr);
  add("label", samples.labels);
  for (const auto& column : samples.columns) add(column.name, column.values);
}

// Without headers and names: for a line of progress.
uint64_t roughly_bytes(const ScreenContents& contents) {
  uint64_t total = 0;
  const auto add = [&](const Array& array) { total += array.bytes().size(); };
  for (const auto& type : contents.graph.edge_types()) add(type.edges);
  add(contents.samples.removed);
  add(contents.samples.ptr);
  add(contents.samples.labels);
  for (const auto& column : contents.samples.columns) add(column.values);
  for (const auto& split : contents.splits) add(split.parts);
  return total;
}

}  // namespace

DirectoryFormat Screen::format() {
  return {kFormat,
          kVersion,
          {"nodes/*.txt", "nodes/*.npy", "edges/*.npy", "samples/*.npy", "splits/*.npy"}};
}

Screen Screen::open(const fs::path& path, Progress& progress) {
  const Directory directory = Directory::open(path, kFormat, kVersion);
  directory.check(progress);
  Screen screen = read(directory);
  screen.check_contents(progress);
  return screen;
}

Screen Screen::open_unchecked(const fs::path& path) {
  return read(Directory::open(path, kFormat, kVersion));
}

Screen Screen::read(const Directory& directory) {
  Screen screen;
  screen.directory_ = directory;
  with_path(directory.path(), [&] {
    read_manifest(directory.path(), [&] {
      screen.graph_ = std::make_shared<const HeteroGraph>(read_graph(directory));
      screen.samples_ = read_samples(directory);
      screen.splits_ = read_splits(directory, screen.samples_.size());
      screen.noise_ = noise_from_json(directory.manifest().value("noise", Json::array()));
      screen.fingerprint_ = Fingerprint::from_json(directory.manifest().at("fingerprint"));
    });
  });
  return screen;
}

const Column& Screen::column(std::string_view name) const {
  return find_named(path(), "column", name, samples_.columns);
}

const Split& Screen::split(std::string_view name) const {
  return find_named(path(), "split", name, splits_);
}

void Screen::check(Progress& progress) const {
  directory_.check(progress);
  check_contents(progress);
}

void Screen::check_contents(Progress& progress) const {
  with_path(path(), [&] {
    check_values(samples_, graph_->genes().size(), progress);
    for (const auto& split : splits_) check_values(split);
    const Fingerprint found = joined(fingerprint_of(*graph_), fingerprint_of(samples_));
    const auto differing = found.differing_parts(fingerprint_);
    if (!differing.empty() || found.parts().size() != fingerprint_.parts().size())
      throw Error("the fingerprint in the manifest is not that of the contents ({}); make it again",
                  differing.empty() ? "it has more parts" : differing.front());
  });
}

Screen write_screen(const fs::path& path, const ScreenContents& contents, Progress& progress) {
  check_contents(contents, progress);
  DirectoryWriter writer(path, Screen::format(), contents.made_by);
  progress.begin("writing", roughly_bytes(contents), "bytes");
  write_graph(writer, contents.graph);
  write_samples(writer, contents.samples, progress);
  Json splits = Json::array();
  for (const auto& split : contents.splits) {
    writer.add_array(split_file(split.name), split.parts);
    splits.push_back({{"name", split.name}, {"how", split.how}});
  }
  progress.end();
  Json extra = graph_to_json(contents.graph);
  extra["samples"] = samples_to_json(contents.samples);
  extra["splits"] = splits;
  if (!contents.noise.empty()) extra["noise"] = to_json(contents.noise);
  const Fingerprint fingerprint =
      joined(fingerprint_of(contents.graph), fingerprint_of(contents.samples));
  extra["fingerprint"] = fingerprint.to_json();
  extra["made_by"] = contents.made_by;
  writer.commit(extra);
  const Screen written = Screen::open_unchecked(path);
  if (written.fingerprint().parts() != fingerprint.parts())  // possible on a disk without locks
    throw Error("{}: another program has written there meanwhile; delete it and run this again",
                path.string());
  return written;
}

void add_split(const fs::path& path, const Split& split) {
  const Screen screen = Screen::open(path);
  check_name("split", split.name);
  check_layout(split, screen.samples().size());
  check_values(split);
  for (const auto& there : screen.splits())
    if (there.name == split.name)
      throw Error(
          "{}: has a split '{}' already; choose another name, or take it away with `lacuna split "
          "{} --name {} --remove`",
          path.string(), split.name, shell_word(path.string()), shell_word(split.name));
  add_array_to(path, split_file(split.name), split.parts, [&](Json& manifest) {
    manifest.at("splits").push_back({{"name", split.name}, {"how", split.how}});
  });
}

Split remove_split(const fs::path& path, const std::string& name) {
  Split split = Screen::open_unchecked(path).split(name);
  const auto parts = split.parts.as<uint8_t>();
  split.parts = Array::from(std::vector<uint8_t>(parts.begin(), parts.end()));  // its file goes
  remove_file_from(path, split_file(name), [&](Json& manifest) {
    std::erase_if(manifest.at("splits").get_ref<Json::array_t&>(),
                  [&](const Json& one) { return one.at("name") == name; });
  });
  return split;
}

uint64_t add_aliases(const fs::path& path, const Names& genes) {
  const Screen screen = Screen::open(path);
  Names names = screen.graph().genes().names;
  LACUNA_ASSERT(names.all() == genes.all());
  const uint64_t before = names.alias_count();
  for (uint32_t gene = 0; gene < genes.size(); ++gene)
    for (const std::string& alias : genes.aliases(gene)) names.add_alias(alias, gene);
  if (names.alias_count() == before) return 0;
  const auto aliases_of_genes = [](Json& manifest) -> Json& {
    for (Json& type : manifest.at("nodes"))
      if (type.at("type") == "gene") return type["aliases"];
    LACUNA_ASSERT(false);
  };
  Json manifest = screen.directory().manifest();
  const Json there = aliases_of_genes(manifest);
  const std::string old_file = there.is_string() ? there.get<std::string>() : "";
  std::string file = aliases_file("gene");
  for (int number = 2; screen.directory().has(file); ++number)
    file = fmt::format("nodes/gene.aliases-{}.txt", number);
  replace_lines_in(path, old_file, file, alias_lines(names),
                   [&](Json& changed) { aliases_of_genes(changed) = file; });
  return names.alias_count() - before;
}

namespace {

// The features of the genes in a manifest.
Json& gene_features(Json& manifest) {
  for (Json& nodes : manifest.at("nodes"))
    if (nodes.at("type") == "gene") return nodes.at("features");
  throw Error("the screen has no genes");
}

void set_fingerprint(Json& manifest, const HeteroGraph& graph, const Samples& samples) {
  manifest["fingerprint"] = joined(fingerprint_of(graph), fingerprint_of(samples)).to_json();
}

}  // namespace

void check_free_feature(const Screen& screen, const std::string& name) {
  check_name("feature", name);
  for (const NodeFeature& there : screen.graph().genes().features)
    if (there.name == name)
      throw Error(
          "{}: the genes have a feature '{}' already; choose another name, or take it away with "
          "`lacuna features {} --name {} --remove`",
          screen.path().string(), name, shell_word(screen.path().string()), shell_word(name));
}

void add_feature(const fs::path& path, const NodeFeature& feature) {
  const Screen screen = Screen::open(path);
  check_free_feature(screen, feature.name);
  HeteroGraph graph = screen.graph();
  graph.add_feature("gene", feature.name, feature.values);
  add_array_to(path, feature_file("gene", feature.name), feature.values, [&](Json& manifest) {
    gene_features(manifest).push_back(feature.name);
    set_fingerprint(manifest, graph, screen.samples());
  });
}

void remove_feature(const fs::path& path, const std::string& name) {
  const Screen screen = Screen::open(path);
  find_named(path, "feature", name, screen.graph().genes().features);
  HeteroGraph graph;
  for (const NodeType& nodes : screen.graph().node_types()) {
    graph.add_nodes(nodes.name, nodes.names);
    for (const NodeFeature& feature : nodes.features)
      if (nodes.name != "gene" || feature.name != name)
        graph.add_feature(nodes.name, feature.name, feature.values);
  }
  for (const EdgeType& type : screen.graph().edge_types())
    graph.add_edges(type.source, type.name, type.target, type.edges, type.values);
  remove_file_from(path, feature_file("gene", name), [&](Json& manifest) {
    std::erase_if(gene_features(manifest).get_ref<Json::array_t&>(),
                  [&](const Json& one) { return one == name; });
    set_fingerprint(manifest, graph, screen.samples());
  });
}

Fingerprint fingerprint_of(const HeteroGraph& graph) {
  Fingerprint fingerprint;
  for (const auto& type : graph.node_types()) {
    fingerprint.add(type.name == "gene" ? "genes" : "nodes " + type.name, type.names.hash());
    for (const auto& feature : type.features)
      fingerprint.add("features " + type.name + "." + feature.name, hash_values(feature.values));
  }
  for (const auto& type : graph.edge_types()) {
    fingerprint.add("edges " + type.key(), hash_indices(type.edges));
    for (const auto& value : type.values)
      fingerprint.add("values " + type.key() + "." + value.name, hash_values(value.values));
  }
  return fingerprint;
}

}  // namespace lacuna
