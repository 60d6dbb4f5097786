// A screen from tables, one of which is the input: the first byte says which, and how what is odd
// in it is taken.
#include "fuzz/fuzz.h"
#include "lacuna/screen/import/import_screen.h"

using namespace lacuna;

namespace {

constexpr const char* kFiles[][2] = {
    {"genes.tsv", "gene\tname\na\tA\nb\tB|b2\nc\tC\nd\tD\n"},
    {"network.tsv", "source\ttarget\tweight\na\tb\t1\nB\ta\t2\nc\tc\t\n"},
    {"reactions.tsv", "reaction\trule\tflux\nR1\ta and (b or c)\t1\nR2\t\t0.5\n"},
    {"stoichiometry.tsv", "reaction\tmetabolite\tcoefficient\nR1\tm\t-1\nR2\tn\t2\n"},
    {"features.csv", "gene,x,y\na,1,2\nb,3,\nc,0,0\nd,1,1\n"},
    {"samples.tsv",
     "g1\tg2\ty\tsd\tallele\tpart\na\tb\t1\t0.1\tts\ttrain\nc\tctrl\t-2.5\t\t\ttest\n"},
    {"split.json", "{\"train\": [0], \"val\": [], \"test\": [1]}"}};
constexpr size_t kCount = sizeof kFiles / sizeof kFiles[0];

ScreenImport options_for(const fs::path& folder, uint8_t how) {
  ScreenImport options;
  options.genes = {{folder / "genes.tsv"}, "gene", {"name"}, "|"};
  NetworkOptions network;
  network.name = "n";
  network.table = {folder / "network.tsv"};
  network.weight_column = "weight";
  network.missing_weight = 1;
  network.repeated = RepeatedEdges(how & 3);
  options.networks = {network};
  options.metabolism.emplace();
  options.metabolism->reactions = {folder / "reactions.tsv"};
  options.metabolism->number_columns = {"flux"};
  options.metabolism->stoichiometry = {folder / "stoichiometry.tsv"};
  FeatureOptions features;
  features.name = "f";
  features.source = {folder / "features.csv"};
  features.missing = 0;
  options.features = {features};
  SampleTableOptions samples;
  samples.name = "s";
  samples.table = {folder / "samples.tsv"};
  samples.names = {"", "", {"ctrl"}};
  samples.removed_columns = {"g1", "g2"};
  samples.labels = {{"y", "y"}};
  samples.numbers = {{"sd", "sd"}};
  samples.categories = {{"allele", "allele"}};
  samples.splits = {{"part", "part"}};
  options.samples = {samples};
  options.splits = {{"listed", folder / "split.json"}};
  options.unknown = UnknownPolicy(how & 1);
  options.non_numbers = NonNumberPolicy(how >> 1 & 1);
  options.missing_labels = how & 4 ? MissingLabelPolicy::drop : MissingLabelPolicy::keep;
  options.duplicates = how & 1 ? DuplicatePolicy::mean : DuplicatePolicy::keep;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const fuzz::MemoryDirectory directory;
  const size_t damaged = (data[0] & 15) % kCount;
  for (size_t i = 0; i < kCount; ++i)
    fuzz::write_file(directory / kFiles[i][0],
                     i == damaged ? fuzz::text_of(data + 1, size - 1) : kFiles[i][1]);
  fuzz::reads([&] {
    ImportReport report;
    import_screen(directory / "out", options_for(directory.path(), data[0] >> 4), "fuzz", report)
        .check(Progress::none());
  });
  fs::remove_all(directory / "out");
  return 0;
}
