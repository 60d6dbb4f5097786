// A zip file of arrays, which Lacuna only writes: here texts and numbers of any kind go in.
#include "lacuna/store/npz.h"

#include "fuzz/fuzz.h"

using namespace lacuna;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryDirectory directory;
  const std::string_view all = fuzz::text_of(data, size);
  return fuzz::try_reading([&] {
    std::vector<std::string> texts;
    for (size_t at = 0; at < all.size();) {
      const size_t end = std::min(all.find('\n', at), all.size());
      texts.emplace_back(all.substr(at, end - at));
      at = end + 1;
    }
    NpzWriter file(directory / "out.npz");
    const size_t numbers = file.add("numbers", DType::u8, {size});
    file.add("texts", texts);
    file.append<uint8_t>(numbers, {data, size});
    file.close();
  });
}
