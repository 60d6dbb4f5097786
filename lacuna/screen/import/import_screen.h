// A screen from foreign data: genes, networks, metabolism, features, samples, splits
// (docs/import.md).
//
// Nothing is guessed. What is odd in the data (unknown genes, repeated samples, missing labels,
// cells that are not numbers) is counted with examples in the report, and an option says what
// happens to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lacuna/screen/import/features.h"
#include "lacuna/screen/import/json_lmdb.h"
#include "lacuna/screen/import/metabolism.h"
#include "lacuna/screen/import/network.h"
#include "lacuna/screen/import/sample_table.h"
#include "lacuna/screen/import/splits.h"
#include "lacuna/screen/screen.h"

namespace lacuna {

struct ScreenImport {
  GeneTableOptions genes;
  std::vector<GeneTableOptions> aliases;
  std::vector<NetworkOptions> networks;
  std::optional<MetabolismOptions> metabolism;
  std::vector<FeatureOptions> features;
  // Samples come from tables or from one database of records, not both: their source numbers would
  // clash.
  std::vector<SampleTableOptions> samples;
  std::optional<JsonLmdbOptions> records;
  std::vector<SplitOptions> splits;

  UnknownPolicy unknown = UnknownPolicy::error;  // of tables whose own rules do not say
  NonNumberPolicy non_numbers = NonNumberPolicy::error;
  MissingLabelPolicy missing_labels = MissingLabelPolicy::keep;
  DuplicatePolicy duplicates = DuplicatePolicy::keep;
  // Samples are repeats of each other when they remove the same genes and agree in these columns.
  // Not set: screen; for records dataset_name, experiment_type, media, media_state and temperature.
  std::optional<std::vector<std::string>> repeats_within;
  int threads = 0;  // for records; 0: all available

  Json settings() const;  // for made_by
};

// What an import has read, before anything is written.
struct ReadImport {
  HeteroGraph graph;
  Samples samples;
  std::vector<Split> splits;
  std::vector<LabelNoise> noise;
  Json sources;
};

// Reads everything. The report is the caller's, so that it is there after an error too. Throws
// RefusedNames, when all was read, for unknown genes and for tables of which most rows would be
// left out; Error for anything else that is wrong, as soon as it is met.
ReadImport read_import(const ScreenImport& options, ImportReport& report,
                       Progress& progress = Progress::none());
// Reads everything, then writes the screen. `command` is kept in the manifest, beside the settings,
// the sources with their checksums, and the report.
Screen import_screen(const fs::path& out, const ScreenImport& options, const std::string& command,
                     ImportReport& report, Progress& progress = Progress::none());

std::string_view name(UnknownPolicy policy);
std::string_view name(NonNumberPolicy policy);
std::string_view name(MissingLabelPolicy policy);
std::string_view name(DuplicatePolicy policy);

}  // namespace lacuna
