// Which genes a reaction needs.
#include "lacuna/screen/gene_rule.h"

#include "fuzz/fuzz.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::try_reading([&] { parse_gene_rule(fuzz::text_of(data, size)); });
}
