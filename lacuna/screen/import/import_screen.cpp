#include "lacuna/screen/import/import_screen.h"

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

const std::vector<std::string> kWithinTables = {"screen"};
const std::vector<std::string> kWithinRecords = {"dataset_name", "experiment_type", "media",
                                                 "media_state", "temperature"};

void check_options(const ScreenImport& options) {
  if (options.samples.empty() == !options.records)
    throw UsageError("give samples: either tables (--samples) or one database (--json-lmdb)");
}

const std::vector<std::string>& repeats_within(const ScreenImport& options) {
  if (options.repeats_within) return *options.repeats_within;
  return options.records ? kWithinRecords : kWithinTables;
}

HeteroGraph import_graph(const ScreenImport& options, const GeneList& genes,
                         ImportContext& context) {
  HeteroGraph graph;
  graph.add_nodes("gene", genes.names());
  for (const NetworkOptions& network : options.networks)
    import_network(network, genes, context, graph);
  if (options.metabolism) import_metabolism(*options.metabolism, genes, context, graph);
  for (const FeatureOptions& feature : options.features)
    import_features(feature, genes, context, graph);
  return graph;
}

SampleRows import_rows(const ScreenImport& options, const GeneList& genes, ImportContext& context) {
  SampleRows rows(options.records ? "key" : "row");
  uint64_t next_row = 0;
  for (const SampleTableOptions& table : options.samples)
    next_row += import_samples(table, genes, options.missing_labels, next_row, context, rows);
  if (options.records)
    import_json(*options.records, genes, options.missing_labels, options.duplicates,
                options.threads, context, rows);
  if (rows.size() == 0) throw Error("no samples: every row was left out, or there was none");
  if (options.repeats_within)
    for (const std::string& name : *options.repeats_within)
      if (!rows.has_column(name))
        throw Error("--repeats-within: the samples have no column '{}'", name);
  rows.sort_by_source();
  rows.merge_repeats(
      options.duplicates, repeats_within(options),
      context.report.tally("all samples", "repeated samples (--duplicates " +
                                              std::string(name(options.duplicates)) + ")"),
      genes.names());
  context.report.tally("all samples", "samples stored").count = rows.size();
  return rows;
}

}  // namespace

std::string_view name(UnknownPolicy policy) {
  return policy == UnknownPolicy::error ? "error" : "drop";
}

std::string_view name(NonNumberPolicy policy) {
  return policy == NonNumberPolicy::error ? "error" : "missing";
}

std::string_view name(MissingLabelPolicy policy) {
  if (policy == MissingLabelPolicy::keep) return "keep";
  return policy == MissingLabelPolicy::drop ? "drop" : "error";
}

std::string_view name(DuplicatePolicy policy) {
  if (policy == DuplicatePolicy::keep) return "keep";
  return policy == DuplicatePolicy::mean ? "mean" : "first";
}

Json ScreenImport::settings() const {
  return {{"unknown", name(unknown)},
          {"non_numbers", name(non_numbers)},
          {"missing_labels", name(missing_labels)},
          {"duplicates", name(duplicates)},
          {"repeats_within", lacuna::repeats_within(*this)}};
}

ImportedScreen import_screen(const fs::path& out, const ScreenImport& options,
                             const std::string& command, Progress& progress) {
  check_options(options);
  DirectoryWriter::check_path(out, Screen::format());
  ImportReport report;
  ImportContext context = {options.unknown, options.non_numbers, report, progress};
  GeneList genes = import_genes(options.genes, context);
  for (const GeneTableOptions& aliases : options.aliases) import_aliases(aliases, genes, context);
  const HeteroGraph graph = import_graph(options, genes, context);
  const SampleRows rows = import_rows(options, genes, context);
  std::vector<Split> splits = rows.splits();
  for (const SplitOptions& split : options.splits)
    splits.push_back(import_split(split, rows, context));
  const Samples samples = rows.samples(genes.names().size());
  const Json made_by = {{"command", command},
                        {"settings", options.settings()},
                        {"sources", context.sources},
                        {"report", report.to_json()}};
  Screen screen = write_screen(out, {graph, samples, std::move(splits), made_by}, progress);
  return {std::move(screen), std::move(report)};
}

}  // namespace lacuna
