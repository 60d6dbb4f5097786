// A screen with one damaged file (damaged.h).
#include "lacuna/screen/screen.h"

#include "fuzz/damaged.h"
#include "lacuna/graph/removal.h"
#include "lacuna/screen/splits/split.h"
#include "lacuna/screen/subset.h"
#include "lacuna/screen/summary.h"
#include "lacuna/screen/testing.h"

using namespace lacuna;

namespace {

fs::path write_whole(const fs::path& path) {
  const HeteroGraph graph = small_graph(1, 12);
  const Samples samples = small_samples(1, 20, 12);
  write_screen(path, {graph, samples, {thirds_split(20)}, {{"command", "fuzz"}}});
  return path;
}

// Everything that walks through a screen which nobody has checked yet.
void use(const Screen& screen) {
  fuzz::reads([&] { summarise(screen); });
  fuzz::reads([&] { select_samples(screen, {"removed=2", "sd<0.5", "split:thirds=train"}); });
  fuzz::reads([&] { draw_split(screen, "new", {.by = SplitBy::pair, .seed = 1}); });
  fuzz::reads([&] { draw_split(screen, "new", {.by = SplitBy::gene, .seed = 1}); });
  fuzz::reads([&] { RemovalRules(screen.graph()).hash(); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryDirectory directory;
  static const fuzz::Damaged screen(write_whole(directory / "screen"));
  screen.read(data, size, [&] {
    fuzz::reads([&] { use(Screen::open_unchecked(screen.path())); });
    fuzz::reads([&] { Screen::open(screen.path()); });
  });
  return 0;
}
