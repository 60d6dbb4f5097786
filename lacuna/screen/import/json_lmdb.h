// Samples from an LMDB of JSON records (see json_record.h): key = a decimal number as text, numbers
// may be missing; value = a record, plain or zlib. A record is a sample: it removes the genes of
// all its experiments, and its labels are what their phenotypes name.
//
// Samples are ordered by the number in their key. Columns: key, one number per statistic (by its
// name), temperature; categories perturbation_type (all types in the record, joined by "+"), media,
// media_state, temperature_unit, experiment_type, dataset_name: those of the first experiment;
// records in which others differ are counted.
#pragma once

#include <string>
#include <vector>

#include "lacuna/screen/import/gene_names.h"
#include "lacuna/screen/import/sample_rows.h"

namespace lacuna {

struct JsonLmdbOptions {
  fs::path path;
  NameRules names;
  std::vector<std::string>
      perturbation_types;    // records with another type are left out; empty: all
  bool drop_broken = false;  // leave out and count broken records: else an Error
};

// `duplicates` says what happens when a record holds one label several times: mean, first, or
// (keep) an Error. Throws Error naming the key. The result does not depend on the number of
// threads. A damaged database is an Error, not a crash, and no record is lost silently
// (store/lmdb_records.h).
void import_json(const JsonLmdbOptions& options, const Names& genes,
                 MissingLabelPolicy missing_labels, DuplicatePolicy duplicates, int threads,
                 ImportContext& context, SampleRows& rows);

}  // namespace lacuna
