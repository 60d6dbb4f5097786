#include "lacuna/core/hash.h"
#include "lacuna/screen/summary.h"

namespace lacuna {
namespace {

Json to_json(const NumberSummary& numbers) {
  Json json = {{"count", numbers.count}, {"missing", numbers.missing}};
  if (numbers.count == 0) return json;
  json["mean"] = numbers.mean;
  json["sd"] = numbers.sd;
  json["min"] = numbers.min;
  json["max"] = numbers.max;
  return json;
}

Json to_json(const DegreeSummary& degrees) {
  return {{"min", degrees.min}, {"median", degrees.median}, {"max", degrees.max}};
}

Json nodes_json(const HeteroGraph& graph) {
  Json nodes = Json::array();
  for (const auto& type : graph.node_types()) {
    Json features = Json::object();
    for (const auto& feature : type.features) features[feature.name] = feature.values.shape()[1];
    nodes.push_back({{"type", type.name}, {"count", type.size()}, {"features", features}});
    if (type.names.alias_count() > 0) nodes.back()["aliases"] = type.names.alias_count();
  }
  return nodes;
}

Json edges_json(const ScreenSummary& summary) {
  Json all = Json::array();
  for (const auto& edges : summary.edges)
    all.push_back({{"type", edges.key},
                   {"count", edges.count},
                   {"self_loops", edges.self_loops},
                   {"in_degree", to_json(edges.in)},
                   {"out_degree", to_json(edges.out)},
                   {"values", edges.values}});
  return all;
}

Json samples_json(const Screen& screen, const ScreenSummary& summary) {
  Json removed = Json::object(), labels = Json::array(), columns = Json::array();
  for (const auto& [genes, samples] : summary.removed_counts)
    removed[std::to_string(genes)] = samples;
  for (size_t l = 0; l < summary.labels.size(); ++l) {
    labels.push_back({{"name", screen.samples().label_names[l]}});
    labels.back().update(to_json(summary.labels[l]));
  }
  for (const auto& column : summary.columns) {
    columns.push_back({{"name", column.name}, {"dtype", name(column.dtype)}});
    if (column.categories.empty()) {
      columns.back().update(to_json(column.numbers));
      continue;
    }
    columns.back()["missing"] = column.unknown;
    for (const auto& [category, count] : column.categories)
      columns.back()["categories"].push_back({{"name", category}, {"count", count}});
  }
  return {{"count", summary.samples},
          {"removed", removed},
          {"genes_removed", summary.genes_removed},
          {"labels", labels},
          {"columns", columns}};
}

Json splits_json(const ScreenSummary& summary) {
  Json splits = Json::array();
  for (const auto& split : summary.splits)
    splits.push_back({{"name", split.name},
                      {"train", split.train},
                      {"validation", split.validation},
                      {"test", split.test},
                      {"unused", split.unused},
                      {"how", split.how}});
  return splits;
}

}  // namespace

Json to_json(const ScreenSummary& summary, const Screen& screen) {
  const Json& manifest = screen.directory().manifest();
  return {
      {"path", screen.path().string()},
      {"format", manifest.at("format")},
      {"version", manifest.at("version")},
      {"bytes", screen.directory().bytes()},
      {"files", screen.directory().files().size()},
      {"nodes", nodes_json(screen.graph())},
      {"isolated_genes", summary.isolated_genes},
      {"edges", edges_json(summary)},
      {"samples", samples_json(screen, summary)},
      {"noise", to_json(screen.noise())},
      {"splits", splits_json(summary)},
      {"fingerprint",
       {{"value", hex(screen.fingerprint().value())}, {"parts", screen.fingerprint().to_json()}}},
      {"made_by", manifest.value("made_by", Json())},
      {"manifest_checked", screen.directory().is_manifest_checked()}};
}

}  // namespace lacuna
