#include "lacuna/screen/concat.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kExactInF64 = int64_t(1) << 53;

// ---- the same graph

struct Two {
  const Screen& first;
  const Screen& other;
  std::string paths() const {
    return fmt::format("{} and {}", first.path().string(), other.path().string());
  }
};

bool same(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

void check_same_names(const Two& two, const NodeType& a, const NodeType& b) {
  const uint32_t shared = std::min(a.size(), b.size());
  for (uint32_t i = 0; i < shared; ++i)
    if (a.names[i] != b.names[i])
      throw Error(
          "{} are over different nodes of type '{}': line {} is '{}' in the first, '{}' in "
          "the second; import both with one list of genes",
          two.paths(), a.name, i + 1, a.names[i], b.names[i]);
  if (a.size() != b.size())
    throw Error(
        "{} are over different nodes of type '{}': {} in the first, {} in the second; import "
        "both with one list of genes",
        two.paths(), a.name, a.size(), b.size());
}

void check_same_edges(const Two& two, const EdgeType& a, const EdgeType& b) {
  if (a.size() != b.size())
    throw Error("{} differ in edges of type '{}': {} in the first, {} in the second", two.paths(),
                a.key(), a.size(), b.size());
  if (!same(a.edges, b.edges)) {
    const auto as = a.sources(), at = a.targets(), bs = b.sources(), bt = b.targets();
    for (uint64_t e = 0; e < a.size(); ++e)
      if (as[e] != bs[e] || at[e] != bt[e])
        throw Error(
            "{} differ in edges of type '{}': edge {} is {} -> {} in the first, {} -> {} in "
            "the second",
            two.paths(), a.key(), e, as[e], at[e], bs[e], bt[e]);
  }
}

// Features of nodes and values of edges: the same names with the same numbers, in any order.
template <class Named>
void check_same_values(const Two& two, std::string_view kind, const std::string& of,
                       const std::vector<Named>& a, const std::vector<Named>& b) {
  if (a.size() != b.size())
    throw Error("{} differ in the {} of '{}': {} in the first, {} in the second", two.paths(), kind,
                of, a.size(), b.size());
  for (const auto& values : a) {
    const auto found = std::find_if(b.begin(), b.end(),
                                    [&](const Named& other) { return other.name == values.name; });
    if (found == b.end() || !same(values.values, found->values))
      throw Error("{} differ in {} '{}' of '{}'", two.paths(), kind, values.name, of);
  }
}

template <class Types, class Name>
void check_same_types(const Two& two, std::string_view kind, const Types& a, const Types& b,
                      Name&& name) {
  std::set<std::string> of_a, of_b;
  for (const auto& type : a) of_a.insert(name(type));
  for (const auto& type : b) of_b.insert(name(type));
  for (const auto& type : of_a)
    if (!of_b.contains(type))
      throw Error("{} differ: only the first has {} '{}'", two.paths(), kind, type);
  for (const auto& type : of_b)
    if (!of_a.contains(type))
      throw Error("{} differ: only the second has {} '{}'", two.paths(), kind, type);
}

// ---- columns

const Column* find_column(const Screen& screen, const std::string& name) {
  for (const auto& column : screen.samples().columns)
    if (column.name == name) return &column;
  return nullptr;
}

Array join_arrays(const std::vector<Array>& arrays, Shape shape) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (const auto& array : arrays)
    bytes->insert(bytes->end(), array.bytes().begin(), array.bytes().end());
  const std::byte* const data = bytes->data();
  return Array(arrays.front().dtype(), std::move(shape), data, std::move(bytes));
}

uint64_t total_samples(std::span<const Screen> screens) {
  uint64_t total = 0;
  for (const auto& screen : screens) total += screen.samples().size();
  return total;
}

Column join_categories(std::span<const Screen> screens, const std::string& name) {
  std::vector<std::string> categories;
  std::map<std::string, uint32_t> codes;
  std::vector<uint32_t> joined;
  for (const auto& screen : screens) {
    const Column* const column = find_column(screen, name);
    std::vector<uint32_t> new_codes;
    if (column)
      for (const auto& category : column->categories) {
        const auto [at, is_new] = codes.emplace(category, uint32_t(categories.size()));
        if (is_new) categories.push_back(category);
        new_codes.push_back(at->second);
      }
    for (uint64_t s = 0; s < screen.samples().size(); ++s) {
      const auto code = column ? column->code(s) : std::nullopt;
      if (code && *code >= new_codes.size())
        throw Error("{}: sample {} has code {} in column '{}', which has {} categories",
                    screen.path().string(), s, *code, name, new_codes.size());
      joined.push_back(code ? new_codes[*code] : UINT32_MAX);
    }
  }
  return make_category_column(name, joined, std::move(categories));
}

double exact_number(const Screen& screen, const Column& column, uint64_t sample) {
  if (column.values.dtype() == DType::i64 &&
      std::abs(column.values.as<int64_t>()[sample]) > kExactInF64)
    throw Error(
        "{}: column '{}' holds {}, which f64 cannot hold, and not every screen has this column "
        "as i64; leave it out",
        screen.path().string(), column.name, column.values.as<int64_t>()[sample]);
  return column.number(sample);
}

Column join_numbers(std::span<const Screen> screens, const std::string& name) {
  std::vector<Array> arrays;
  for (const auto& screen : screens)
    if (const Column* const column = find_column(screen, name)) arrays.push_back(column->values);
  const bool agree = arrays.size() == screens.size() &&
                     std::all_of(arrays.begin(), arrays.end(), [&](const Array& array) {
                       return array.dtype() == arrays[0].dtype();
                     });
  if (agree) return {name, join_arrays(arrays, {total_samples(screens)}), {}};
  std::vector<double> joined;
  for (const auto& screen : screens) {
    const Column* const column = find_column(screen, name);
    for (uint64_t s = 0; s < screen.samples().size(); ++s)
      joined.push_back(column ? exact_number(screen, *column, s) : kNone);
  }
  return {name, Array::from(std::move(joined)), {}};
}

Column join_column(std::span<const Screen> screens, const std::string& name) {
  const Screen* with_categories = nullptr;
  const Screen* with_numbers = nullptr;
  for (const auto& screen : screens)
    if (const Column* const column = find_column(screen, name))
      (column->is_category() ? with_categories : with_numbers) = &screen;
  if (with_categories && with_numbers)
    throw Error("column '{}' holds categories in {} and numbers in {}; rename one", name,
                with_categories->path().string(), with_numbers->path().string());
  return with_categories ? join_categories(screens, name) : join_numbers(screens, name);
}

std::vector<Column> join_columns(std::span<const Screen> screens) {
  std::vector<Column> columns;
  std::set<std::string> done;
  for (const auto& screen : screens)
    for (const auto& column : screen.samples().columns)
      if (done.insert(column.name).second) columns.push_back(join_column(screens, column.name));
  return columns;
}

Column source_column_of(std::span<const Screen> screens, const std::string& name) {
  const auto short_name = [](const Screen& screen) {
    const fs::path path = fs::absolute(screen.path()).lexically_normal();
    return (path.has_filename() ? path : path.parent_path()).filename().string();
  };
  std::set<std::string> names;
  for (const auto& screen : screens) names.insert(short_name(screen));
  std::vector<std::string> categories;
  std::vector<uint32_t> codes;
  for (const auto& screen : screens) {
    codes.insert(codes.end(), screen.samples().size(), uint32_t(categories.size()));
    categories.push_back(names.size() == screens.size() ? short_name(screen)
                                                        : screen.path().string());
  }
  return make_category_column(name, codes, std::move(categories));
}

// ---- labels, removed genes, splits

std::vector<std::string> join_label_names(std::span<const Screen> screens) {
  std::vector<std::string> names;
  for (const auto& screen : screens)
    for (const auto& name : screen.samples().label_names)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

// For every label of the result, its place among this screen's, or -1.
std::vector<int> label_places(const Samples& samples, const std::vector<std::string>& names) {
  std::vector<int> places;
  for (const auto& name : names) {
    const auto at = std::find(samples.label_names.begin(), samples.label_names.end(), name);
    places.push_back(at == samples.label_names.end() ? -1 : int(at - samples.label_names.begin()));
  }
  return places;
}

Samples join_removed_and_labels(std::span<const Screen> screens, Progress& progress) {
  const auto names = join_label_names(screens);
  SampleBuilder builder(screens.front().graph().genes().size(), names);
  std::vector<uint32_t> removed;
  std::vector<float> labels(names.size());
  progress.begin("joining", total_samples(screens), "samples");
  for (const auto& screen : screens) {
    const Samples& samples = screen.samples();
    const RemovedReader reader(samples);
    const auto places = label_places(samples, names);
    const auto values = samples.labels.as<float>();
    for (uint64_t s = 0; s < samples.size(); ++s) {
      reader.read(s, removed);
      for (size_t l = 0; l < names.size(); ++l)
        labels[l] =
            places[l] < 0 ? float(kNone) : values[s * samples.label_count() + uint64_t(places[l])];
      builder.add(removed, labels);
      if (builder.size() % kReportEvery == 0) progress.advance(builder.size());
    }
  }
  progress.end();
  return builder.finish();
}

void join_splits(std::span<const Screen> screens, JoinedSamples& joined) {
  std::vector<std::string> names;
  for (const auto& screen : screens)
    for (const auto& split : screen.splits())
      if (std::find(names.begin(), names.end(), split.name) == names.end())
        names.push_back(split.name);
  for (const auto& name : names) {
    std::vector<Array> parts;
    Json hows = Json::array();
    for (const auto& screen : screens)
      for (const auto& split : screen.splits())
        if (split.name == name) {
          parts.push_back(split.parts);
          hows.push_back(split.how);
        }
    if (parts.size() < screens.size())
      joined.dropped_splits.push_back(name);
    else
      joined.splits.push_back(
          {name, join_arrays(parts, {total_samples(screens)}), {{"by", "concat"}, {"of", hows}}});
  }
}

}  // namespace

void check_same_graph(const Screen& first, const Screen& other) {
  const HeteroGraph &a = first.graph(), &b = other.graph();
  const Two two = {first, other};
  check_same_types(two, "nodes of type", a.node_types(), b.node_types(),
                   [](const NodeType& type) { return type.name; });
  check_same_types(two, "edges of type", a.edge_types(), b.edge_types(),
                   [](const EdgeType& type) { return type.key(); });
  for (const auto& type : a.node_types()) {
    check_same_names(two, type, b.nodes(type.name));
    check_same_values(two, "feature", type.name, type.features, b.nodes(type.name).features);
  }
  for (const auto& type : a.edge_types()) {
    check_same_edges(two, type, b.edges(type.key()));
    check_same_values(two, "value", type.key(), type.values, b.edges(type.key()).values);
  }
}

JoinedSamples join_samples(std::span<const Screen> screens, const std::string& source_column,
                           Progress& progress) {
  LACUNA_ASSERT(!screens.empty());
  for (const auto& screen : screens) check_same_graph(screens.front(), screen);
  JoinedSamples joined;
  joined.samples = join_removed_and_labels(screens, progress);
  joined.samples.columns = join_columns(screens);
  if (!source_column.empty()) {
    for (const auto& column : joined.samples.columns)
      if (column.name == source_column)
        throw Error("the screens have a column '{}' already; name the column of sources otherwise",
                    source_column);
    joined.samples.columns.push_back(source_column_of(screens, source_column));
  }
  join_splits(screens, joined);
  std::vector<LabelNoise> noise;
  for (const auto& screen : screens)
    noise.insert(noise.end(), screen.noise().begin(), screen.noise().end());
  joined.noise = joined_noise(noise);
  return joined;
}

}  // namespace lacuna
