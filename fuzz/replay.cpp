// Feeds a target the files it is given, or those in the folders it is given: the kept inputs, in
// `make test`, without libFuzzer.
//
//   fuzz_npy fuzz/corpus/npy
#include <algorithm>
#include <cstdio>
#include <vector>

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  std::vector<lacuna::fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!lacuna::fs::is_directory(argv[i])) {
      files.push_back(argv[i]);
      continue;
    }
    for (const auto& entry : lacuna::fs::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::fprintf(stderr, "error: no inputs; name a folder of them, such as fuzz/corpus/npy\n");
    return 1;
  }
  for (const auto& file : files) {
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);  // the last name is that of the input that ended it
    // In memory of their own size, so that the sanitizers see what lies behind.
    const std::string text = lacuna::read_text(file);
    const std::vector<uint8_t> bytes(text.begin(), text.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
}
