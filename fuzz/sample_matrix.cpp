// A matrix of scores as samples; the first byte says how what is odd in it is taken.
#include "fuzz/fuzz.h"
#include "lacuna/screen/import/sample_table.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const fuzz::MemoryFile file;
  file.write(fuzz::text_of(data + 1, size - 1));
  const Names genes({"a", "b", "c", "d"});
  SampleTableOptions options;
  options.name = "m";
  options.table = {file.path(), data[0] & 1 ? ',' : '\t'};
  options.names.separator = data[0] & 2 ? "+" : "";
  options.names.unknown = data[0] & 4 ? UnknownPolicy::error : UnknownPolicy::drop;
  options.drop_self = (data[0] & 8) != 0;
  options.labels = {{"y", "y"}};
  options.is_matrix = true;
  return fuzz::try_reading([&] {
    ImportReport report;
    ImportContext context = {UnknownPolicy::drop, NonNumberPolicy(data[0] >> 4 & 1), report,
                             Progress::none()};
    SampleRows rows("row");
    import_matrix(options, genes, 0, context, rows);
    explain_unknown(report, genes);
    rows.sort_by_source();
    Tally repeated, differing;
    rows.merge_repeats(DuplicatePolicy::mean, {"screen"}, repeated, differing, genes);
    rows.samples(genes.size());
    check_unknown(report);
  });
}
