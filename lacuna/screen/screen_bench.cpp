// Opening a screen at yeast size, with 332,313 and with 20 million samples of three genes; the
// opponent reads the same three sample arrays into memory. Then an epoch over 20 million samples,
// in order and in a scattered order, with the memory before and after: `anon` is what the program
// holds, `mapped` the pages of files that the kernel may take back at any time.
//
// Screens are made in the directory for temporary files (TMPDIR), 300 MB, and removed at the end.
#include "lacuna/screen/screen.h"

#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <fstream>
#include <map>
#include <string>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/graph/generate_graph.h"

namespace lacuna {
namespace {

constexpr int64_t kYeast = 332'313, kLarge = 20'000'000;

class Screens {
 public:
  Screens() {
    std::string name = (fs::temp_directory_path() / "lacuna-bench-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw_errno(name, "cannot create");
    directory_ = name;
  }
  ~Screens() { fs::remove_all(directory_); }

  const fs::path& with(int64_t samples) {
    fs::path& path = paths_[samples];
    if (!path.empty()) return path;
    const HeteroGraph graph = generate_graph(GraphSize::yeast, 1);
    SampleBuilder builder(graph.genes().size(), {"label"});
    Random random(1);
    for (int64_t s = 0; s < samples; ++s) {
      uint32_t genes[3];
      for (uint32_t& gene : genes) gene = uint32_t(random.below(graph.genes().size()));
      const float label = float(random.uniform());
      builder.add(genes, {&label, 1});
    }
    path = directory_ / std::to_string(samples);
    write_screen(path, {graph, builder.finish(), {}, {}});
    return path;
  }

 private:
  fs::path directory_;
  std::map<int64_t, fs::path> paths_;
};

Screens& screens() {
  static Screens made;
  return made;
}

// MB of a line of /proc/self/status, such as "RssAnon:    1234 kB".
double memory(const std::string& what) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with(what + ":")) return std::stod(line.substr(what.size() + 1)) / 1000;
  return 0;
}

template <bool is_checked>
void open_screen(benchmark::State& state) {
  const fs::path path = screens().with(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(
        (is_checked ? Screen::open(path) : Screen::open_unchecked(path)).samples().size());
  double bytes = 0;
  for (const char* file : {"removed", "ptr", "label"})
    bytes += double(fs::file_size(path / "samples" / (std::string(file) + ".npy")));
  state.counters["sample_MB"] = bytes / 1e6;
}

void read_sample_arrays(benchmark::State& state) {
  const fs::path path = screens().with(state.range(0));
  for (auto _ : state)
    for (const char* file : {"removed", "ptr", "label"})
      benchmark::DoNotOptimize(read_text(path / "samples" / (std::string(file) + ".npy")).size());
}

// Sample i of the epoch is i * step mod count: in order, or scattered over the whole file.
void epoch(benchmark::State& state, uint64_t step) {
  const Screen screen = Screen::open_unchecked(screens().with(kLarge));
  const RemovedReader reader(screen.samples());
  const auto labels = screen.samples().labels.as<float>();
  const double anon = memory("RssAnon"), mapped = memory("RssFile");
  std::vector<uint32_t> genes;
  for (auto _ : state) {
    double sum = 0;
    for (uint64_t i = 0; i < uint64_t(kLarge); ++i) {
      const uint64_t s = i * step % uint64_t(kLarge);
      reader.read(s, genes);
      sum += double(labels[s]) + double(genes[0]);
    }
    benchmark::DoNotOptimize(sum);
  }
  state.counters["samples/s"] =
      benchmark::Counter(double(kLarge) * double(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["anon_MB_before"] = anon;
  state.counters["anon_MB_after"] = memory("RssAnon");
  state.counters["mapped_MB_before"] = mapped;
  state.counters["mapped_MB_after"] = memory("RssFile");
}

void epoch_in_order(benchmark::State& state) { epoch(state, 1); }
void epoch_scattered(benchmark::State& state) { epoch(state, 7'654'321); }  // coprime to the count

BENCHMARK(open_screen<false>)->Arg(kYeast)->Arg(kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK(open_screen<true>)->Arg(kYeast)->Arg(kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK(read_sample_arrays)->Arg(kYeast)->Arg(kLarge)->Unit(benchmark::kMillisecond);
BENCHMARK(epoch_in_order)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(epoch_scattered)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace lacuna
