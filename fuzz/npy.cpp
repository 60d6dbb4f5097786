// An array file.
#include "lacuna/store/npy.h"

#include "fuzz/fuzz.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryFile file;
  file.write(fuzz::text_of(data, size));
  return fuzz::try_reading([&] { fuzz::touch(read_npy(file.path())); });
}
