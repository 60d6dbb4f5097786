#include "lacuna/screen/import/import_screen.h"

#include <fmt/ranges.h>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"

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

HeteroGraph import_graph(const ScreenImport& options, const Names& genes, ImportContext& context) {
  HeteroGraph graph;
  graph.add_nodes("gene", genes);
  for (const NetworkOptions& network : options.networks)
    import_network(network, genes, context, graph);
  if (options.metabolism) import_metabolism(*options.metabolism, genes, context, graph);
  for (const FeatureOptions& feature : options.features)
    import_features(feature, genes, context, graph);
  return graph;
}

// Why rows gave no sample, from the tallies that count them.
[[noreturn]] void refuse_no_samples(const ImportReport& report) {
  std::vector<std::string> reasons;
  for (const Tally& tally : report.tallies())
    if (tally.count > 0 &&
        (tally.what.find("left out") != std::string::npos ||
         tally.what == "different unknown genes" || tally.what == "rows without a label"))
      reasons.push_back(fmt::format(
          "{}: {} {}{}", tally.source, with_commas(tally.count), tally.what,
          tally.examples.empty() ? "" : fmt::format(" (such as {})", tally.examples.front())));
  throw RefusedNames("no samples: {}", reasons.empty() ? std::string("the tables have no rows")
                                                       : fmt::format("every row was left out. {}",
                                                                     fmt::join(reasons, "; ")));
}

SampleRows read_rows(const ScreenImport& options, const Names& genes, ImportContext& context) {
  SampleRows rows(options.records ? "key" : "row");
  uint64_t next_row = 0;
  for (const SampleTableOptions& table : options.samples)
    next_row += import_samples(table, genes, options.missing_labels, next_row, context, rows);
  if (options.records)
    import_json(*options.records, genes, options.missing_labels, options.duplicates,
                options.threads, context, rows);
  explain_unknown(context.report, genes);
  check_unknown(context.report);
  if (rows.size() == 0) refuse_no_samples(context.report);
  if (!context.report.problems.empty())
    throw RefusedNames("{}", fmt::join(context.report.problems, "; "));
  if (options.repeats_within)
    for (const std::string& name : *options.repeats_within)
      if (!rows.has_column(name))
        throw Error("--repeats-within: the samples have no column '{}'", name);
  rows.sort_by_source();
  return rows;
}

std::vector<LabelNoise> merge_repeats(const ScreenImport& options, const Names& genes,
                                      ImportReport& report, SampleRows& rows) {
  Tally& repeated = report.tally(
      "all samples", fmt::format("repeated samples (--duplicates {})", name(options.duplicates)));
  Tally& differing =
      report.tally("all samples", "numbers that differ between repeats (stored as missing)");
  std::vector<LabelNoise> noise =
      rows.merge_repeats(options.duplicates, repeats_within(options), repeated, differing, genes);
  report.tally("all samples", "samples stored").count = rows.size();
  return noise;
}

}  // namespace

std::string_view name(UnknownPolicy policy) {
  if (policy == UnknownPolicy::error) return "error";
  return policy == UnknownPolicy::drop ? "drop" : "drop-most";
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

ReadImport read_import(const ScreenImport& options, ImportReport& report, Progress& progress) {
  check_options(options);
  ImportContext context = {options.unknown, options.non_numbers, report, progress};
  Names genes = import_genes(options.genes, context);
  for (const GeneTableOptions& aliases : options.aliases) import_aliases(aliases, genes, context);
  ReadImport read;
  read.graph = import_graph(options, genes, context);
  SampleRows rows = read_rows(options, genes, context);
  read.noise = merge_repeats(options, genes, report, rows);
  read.splits = rows.splits();
  for (const SplitOptions& split : options.splits)
    read.splits.push_back(import_split(split, rows, context));
  read.samples = rows.samples(genes.size());
  read.sources = std::move(context.sources);
  return read;
}

Screen import_screen(const fs::path& out, const ScreenImport& options, const std::string& command,
                     ImportReport& report, Progress& progress) {
  DirectoryWriter::check_path(out, Screen::format());
  ReadImport read = read_import(options, report, progress);
  const Json made_by = {{"command", command},
                        {"settings", options.settings()},
                        {"sources", read.sources},
                        {"report", report.to_json()}};
  return write_screen(
      out, {read.graph, read.samples, std::move(read.splits), made_by, std::move(read.noise)},
      progress);
}

}  // namespace lacuna
