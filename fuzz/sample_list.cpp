// A list of samples to ask a model about: lines of names, or a table with a head.
#include "fuzz/fuzz.h"
#include "lacuna/screen/candidates.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryFile file;
  static const Names names({"A", "B", "YAL001C", "a,b", "#1", "say \"so\""});
  file.write(fuzz::text_of(data, size));
  return fuzz::try_reading([&] {
    const auto samples = listed_samples(file.path(), names);
    std::vector<uint32_t> genes;
    uint64_t count = 0;
    while (samples->next(genes)) {
      ++count;
      for (const uint32_t gene : genes) LACUNA_ASSERT(gene < names.size());
    }
    LACUNA_ASSERT(count == samples->size());
  });
}
