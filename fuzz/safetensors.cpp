// A checkpoint, or a run's split.
#include "lacuna/store/safetensors.h"

#include "fuzz/fuzz.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryFile file;
  file.write(fuzz::text_of(data, size));
  return fuzz::try_reading([&] {
    for (const auto& [name, array] : read_safetensors(file.path()).arrays) fuzz::touch(array);
  });
}
